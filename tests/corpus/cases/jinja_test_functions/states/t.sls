a:
  test.show_notification:
    - text: |
        {{ salt['test.retcode']() }} {{ salt['test.retcode'](3) }} {{ salt['test.random_hash']()|length }}
        {{ salt['test.random_hash'](10, 'sha1')|length }} {{ salt['test.echo']('x') }} {{ salt['test.true']() }} {{ salt['test.false']() }}
        {{ salt['test.fib'](5)[0] }} {{ salt['test.collatz'](3)[0] }} {{ salt['test.arg']('a', b=1) }} {{ salt['test.kwarg'](a=1) }}
        {{ salt['test.arg_repr']('a', b=1) }} {{ salt['test.arg_type']('a', b=1) }} {{ salt['test.ping']() }} {{ salt['test.rand_str'](8)|length }}
        {{ salt['test.conf_test']() }} {{ salt['test.cross_test']('test.ping') }} {{ salt['test.opts_pkg']()|length > 3 }} {{ salt['test.not_loaded']()|length > -1 }}
        {{ salt['test.get_opts']()['id'] }} {{ salt['test.provider']('test') }} {{ salt['test.providers']()|length > 1 }} {{ salt['test.outputter']('d') }}
        {{ salt['test.attr_call']()|length > 3 }} {{ salt['test.module_report']()|length }} {{ salt['test.version']() }} {{ salt['test.versions_information']()|length }} {{ salt['test.sleep'](0) }} {{ salt['test.deprecation_warning']() }} {{ salt['test.tty'].__name__ is defined }} {{ salt['test.raise_exception'] is defined }} {{ salt['test.exception'] is defined }} {{ salt['test.stack'] is defined }} {{ salt['test.assertion'](True) }}
