there:
  file.managed:
  - name: '@TMP@/there'
  - contents: old
contents:
  file.managed:
  - name: '@TMP@/there'
  - contents: []
contents_new:
  file.managed:
  - name: '@TMP@/new'
  - contents: []
contents_pillar:
  file.managed:
  - name: '@TMP@/new'
  - contents_pillar: empty
contents_not_allowed:
  file.managed:
  - name: '@TMP@/new'
  - contents: []
  - allow_empty: false
source:
  file.managed:
  - name: '@TMP@/new'
  - source: []
source_there:
  file.managed:
  - name: '@TMP@/there'
  - source: []
source_and_contents:
  file.managed:
  - name: '@TMP@/new'
  - source: []
  - contents: x
no_keys:
  file.managed:
  - name: '@TMP@/no_keys'
  - contents_pillar: []
text:
  file.managed:
  - name: '@TMP@/text'
  - contents: ''
