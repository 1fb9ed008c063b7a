# The message that users see when they log in, rendered from a template with facts of the host and data from pillar.
{%- set motd = salt['pillar.get']('motd', {}) %}

message of the day:
  file.managed:
    - name: {{ motd.get('file', '/etc/motd') }}
    - source: salt://motd/motd.jinja
    - template: jinja
    - mode: '0644'
    - context:
        contact: {{ motd.get('contact', 'root') | yaml_dquote }}
