a:
  file.serialize:
    - name: @TMP@/a.ini
    - serializer: configparser
    - dataset: {main: {A: 1, b: two}, other: {c: null}}
    - serializer_opts:
      - allow_no_value: True
d:
  file.serialize:
    - name: @TMP@/d.ini
    - serializer: configparser
    - dataset: {main: {A: 1, b: "50%%"}, other: {c: "x"}}
    - serializer_opts:
      - interpolation: null
e:
  file.serialize:
    - name: @TMP@/e.ini
    - serializer: configparser
    - dataset: {main: {A: 1, b: "50%"}}
f:
  file.serialize:
    - name: @TMP@/f.ini
    - serializer: configparser
    - dataset: {main: {A: 1, b: "two"}}
    - serializer_opts:
      - nosuch: 1
g:
  file.serialize:
    - name: @TMP@/g.ini
    - serializer: configparser
    - dataset: {main: {A: 1, b: "two"}, common: {z: 1}}
    - serializer_opts:
      - default_section: common
b:
  file.serialize:
    - name: @TMP@/b.ini
    - serializer: configparser
    - dataset: {main: {A: 1, b: two}}
    - serializer_opts:
      - delimiters: ["="]
      - allow_no_value: True
c:
  file.serialize:
    - name: @TMP@/c.ini
    - serializer: configparser
    - dataset: {main: {A: 1, b: two}, DEFAULT: {x: 1}}
