# What somebody who logs in sees: made from a template, with what the host knows and what the pillar says.
{%- set motd = salt['pillar.get']('motd', {}) %}

message of the day:
  file.managed:
    - name: {{ motd.get('file', '/etc/motd') }}
    - source: salt://motd/motd.jinja
    - template: jinja
    - mode: '0644'
    - context:
        contact: {{ motd.get('contact', 'root') | yaml_dquote }}
