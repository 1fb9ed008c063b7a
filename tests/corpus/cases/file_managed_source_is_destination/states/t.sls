f:
  file.managed:
  - name: '@TMP@/f'
  - contents: '{% raw %}a {{ 1 + 1 }}{% endraw %}'
rendered:
  file.managed:
  - name: '@TMP@/f'
  - source: '@TMP@/f'
  - template: jinja
rendered_url:
  file.managed:
  - name: '@TMP@/f'
  - source: file://@TMP@/f
  - template: jinja
copied:
  file.managed:
  - name: '@TMP@/f'
  - source: '@TMP@/f'
