local:
  file.managed:
  - name: '@TMP@/local'
  - contents: '{% raw %}local {{ 1 }}{% endraw %}'
there:
  file.managed:
  - name: '@TMP@/there'
  - contents: other
new_wrong:
  file.managed:
  - name: '@TMP@/a'
  - source: '@TMP@/local'
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
new_wrong_url:
  file.managed:
  - name: '@TMP@/a'
  - source: file://@TMP@/local
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
there_wrong:
  file.managed:
  - name: '@TMP@/there'
  - source: '@TMP@/local'
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
there_wrong_url:
  file.managed:
  - name: '@TMP@/there'
  - source: file://@TMP@/local
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
list_wrong:
  file.managed:
  - name: '@TMP@/a'
  - source:
    - '@TMP@/nosuch'
    - '@TMP@/local'
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
invalid:
  file.managed:
  - name: '@TMP@/a'
  - source: '@TMP@/local'
  - source_hash: nonsense
unverified:
  file.managed:
  - name: '@TMP@/b'
  - source: '@TMP@/local'
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
  - skip_verify: true
template:
  file.managed:
  - name: '@TMP@/c'
  - source: '@TMP@/local'
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
  - template: jinja
tree:
  file.managed:
  - name: '@TMP@/d'
  - source: salt://f
  - source_hash: d41d8cd98f00b204e9800998ecf8427e
right:
  file.managed:
  - name: '@TMP@/e'
  - source: '@TMP@/local'
  - source_hash: md5=3d94442a2ebee3b2b2f900f30c030493
as_said:
  file.managed:
  - name: '@TMP@/there'
  - source: '@TMP@/local'
  - source_hash: 7e4fa2eb8c7ac089739d5defc4489fad68a100d92082ca35c6b40a4524821f87
