# A loop over pillar: one state per page.
{%- from 'site/map.jinja' import root, pages with context %}

include:
  - welcome

site root:
  file.directory:
    - name: {{ root }}
    - makedirs: True
    - require:
      - file: demo directory

{%- for name, text in pages | dictsort %}
page {{ name }}:
  file.managed:
    - name: {{ root }}/{{ name }}.html
    - contents: {{ text | yaml_dquote }}
    - require:
      - file: site root
    - onchanges_in:
      - test: site published
{% endfor %}

# Runs only when a page changes.
site published:
  test.succeed_with_changes:
    - name: {{ pages | length }} pages of {{ grains['id'] }}
