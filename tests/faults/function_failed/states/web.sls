nginx:
  test.nop:
    - note: {{ salt['file.read']('/nonexistent/file') }}
