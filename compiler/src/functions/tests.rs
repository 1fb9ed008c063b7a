//! Results recorded from Salt 3008.3 by rendering the same expressions there.

use super::sample_host::SampleFunctions;

fn check(cases: &[(&str, &str)]) {
    for (template, want) in cases {
        assert_eq!(SampleFunctions::new().render(template), *want, "{template}");
    }
}

#[test]
fn pillar() {
    check(&[
        ("{{ salt['pillar.get']('ports:80') }} {{ salt['pillar.get']('ports:true') }}", "http True"),
        ("{{ salt['pillar.get']('ports:yes') }} {{ salt['pillar.get']('ports:1.5') }}", "True f"),
        (
            "{{ salt['pillar.get']('l:k') }} {{ salt['pillar.get']('l:-1') }} {{ salt['pillar.get']('l:0') }}",
            "v {'k': 'v'} 1",
        ),
        (
            "{{ salt['pillar.get']('nul', 'd') }}|{{ salt['pillar.get']('nope') }}|{{ salt['pillar.get']('nope', none) }}|",
            "None||None|",
        ),
        ("{{ salt['pillar.fetch']('nope') }}|{{ salt['pillar.fetch']('nope', 'd') }}", "|d"),
        (
            "{{ salt['pillar.get'](['a', 'n']) }}|{{ salt['pillar.get']('a|n', delimiter='|') }}",
            "{'y': 2}|{'y': 2}",
        ),
        ("{{ salt['pillar.get'](80) }}|{{ salt['pillar.get']('a:x:y') }}|", "||"),
        (
            "{{ salt['pillar.raw']('nope') }}|{{ salt['pillar.ls']() }}",
            "{}|['a', 'l', 'nul', 's', 'env_type', 'mm', 'master', 'ports']",
        ),
        (
            "{{ salt['pillar.item']('a:x', 'zz') }}|{{ salt['pillar.keys']('a') }}",
            "{'a:x': 1, 'zz': ''}|['x', 'n']",
        ),
        (
            "{{ salt['pillar.obfuscate']('a', 'l', 'nul') }}",
            "{'a': {'x': '<int>', 'n': {'y': '<int>'}}, 'l': ['<int>', '<int>', {'k': '<str>'}], 'nul': '<NoneType>'}",
        ),
        ("{{ salt['pillar.keys']('nope') }}", "ZA0802: `pillar.keys` failed: the pillar has no key `nope`"),
        (
            "{{ salt['pillar.keys']('s') }}",
            "ZA0802: `pillar.keys` failed: the pillar's value of `s` is not a mapping",
        ),
        ("{{ salt['pillar.get']() }}", "ZA0804: `pillar.get` needs the argument `key`"),
        (
            "{{ salt['pillar.get']('a', defualt=1) }}",
            "ZA0804: `pillar.get` has no argument `defualt` (did you mean `default`?)",
        ),
        (
            "{{ salt['pillar.get'](none) }}",
            "ZA0802: `pillar.get` failed: a key must be text or a list of steps, not 'NoneType'",
        ),
    ]);
}

#[test]
fn pillar_merges_over_the_default() {
    check(&[
        (
            "{{ salt['pillar.get']('mm', {'a': {'x': 0, 'y': 0}, 'l': [1]}, merge=True) }}",
            "{'a': {'x': 0, 'y': 2}, 'l': [2], 'extra': 1}",
        ),
        ("{{ salt['pillar.get']('mm', {'l': [1]}, merge=True, merge_nested_lists=True)['l'] }}", "[1, 2]"),
        ("{{ salt['pillar.get']('l', [1, 9], merge=True) }}", "[1, 9, 2, {'k': 'v'}]"),
        (
            "{{ salt['pillar.get']('s', 'x', merge=True) }}|{{ salt['pillar.get']('s', {}, merge=True) }}",
            "secret|secret",
        ),
        ("{{ salt['pillar.get']('nope', {'q': 1}, merge=True) }}", "{'q': 1}"),
        (
            "{{ salt['pillar.get']('a', d, merge=True) }}|{{ d }}",
            "{'n': {'x': 1, 'y': 2}, 'l': [1], 'Debian': {'a': 1}, 'x': 1}|{'n': {'x': 1}, 'l': [1], 'Debian': {'a': 1}}",
        ),
    ]);
}

#[test]
fn values_returned_by_functions_are_shared() {
    check(&[
        (
            "{% set x = salt['pillar.get']('a').update({'z': 1}) %}{{ salt['config.get']('a') }} {{ salt['pillar.items']()['a'] }}",
            "{'x': 1, 'n': {'y': 2}, 'z': 1} {'x': 1, 'n': {'y': 2}}",
        ),
        (
            "{% set x = salt['grains.get']('rack').update({'z': 1}) %}{{ salt['grains.get']('rack') }}",
            "{'row': 'A', 'slot': 7, 'z': 1}",
        ),
        (
            "{% set m = salt['grains.filter_by'](d, merge={'z': 9}) %}{% set x = m.update({'q': 1}) %}{{ d.Debian }}",
            "{'a': 1, 'z': 9, 'q': 1}",
        ),
        (
            "{% set r = salt['defaults.merge'](d, u) %}{% set x = r.m.update({'s': 1}) %}{{ d.n }} {{ d.m }} {{ u.m }}",
            "{'x': 1, 'y': 1} {'t': 1, 's': 1} {'t': 1, 's': 1}",
        ),
        (
            "{% set r = salt['slsutil.merge'](d, u) %}{% set x = r.m.update({'s': 1}) %}{{ d.n }} {{ u.m }} {{ r.n }}",
            "{'x': 1} {'t': 1, 's': 1} {'x': 1, 'y': 1}",
        ),
        (
            "{% set r = salt['slsutil.merge'](d, u, strategy='overwrite') %}{{ d }} {{ r.n }}",
            "{'n': {'y': 1}, 'l': [1, 3], 'Debian': {'a': 1}} {'y': 1}",
        ),
    ]);
}

#[test]
fn grains() {
    check(&[
        (
            "{{ salt['grains.get']('rack:slot') }}|{{ salt['grains.get']('nope', 'd') }}|{{ salt['grains.get']('nope') }}|{{ salt['grains.get']('rack|row', delimiter='|') }}",
            "7|d||A",
        ),
        ("{{ salt['grains.has_value']('rack:nope') }}|{{ salt['grains.has_value']('nullg') }}", "False|True"),
        (
            "{{ salt['grains.equals']('rack:slot', '7') }}|{{ salt['grains.equals']('roles', ['web', 'db']) }}",
            "True|True",
        ),
        (
            "{{ salt['grains.item']('nope', 'id', default='q') }}|{{ salt['grains.ls']()[:2] }}",
            "{'nope': 'q', 'id': 'testminion'}|['env_type', 'id']",
        ),
        ("{{ salt['grains.items']()['os'] }}|{{ salt['grains.fetch']('rack:row') }}", "Debian|A"),
    ]);
}

#[test]
fn filter_by() {
    check(&[
        ("{{ salt['grains.filter_by']({'web': {'a': 1}, 'db': {'b': 1}}, grain='roles') }}", "{'a': 1}"),
        (
            "{{ salt['grains.filter_by']({'D*': {'a': 1}}) }}|{{ salt['grains.filter_by']({'x': 1}, grain='nope') }}",
            "{'a': 1}|None",
        ),
        (
            "{{ salt['grains.filter_by']({'x': 1}, grain='nope', default='x') }}|{{ salt['grains.filter_by']({'None': 1}, grain='nullg') }}",
            "1|1",
        ),
        (
            "{{ salt['grains.filter_by']({'Debian': {'x': {'y': 1}}, 'b': {'x': {'z': 2}}}, base='b') }}",
            "{'x': {'z': 2, 'y': 1}}",
        ),
        (
            "{{ salt['grains.filter_by']({'Debian': 3, 'b': 4}, base='b') }}|{{ salt['grains.filter_by']({'x': 3, 'b': 4}, base='b') }}",
            "3|4",
        ),
        (
            "{{ salt['grains.filter_by']({'x': 3}, merge={'q': 1}) }}|{{ salt['grains.filter_by']({'x': 3}, merge={}) }}|{{ salt['grains.filter_by']({'Debian': {'z': 1}}, merge=none) }}",
            "{'q': 1}|None|{'z': 1}",
        ),
        (
            "{{ salt['grains.filter_by']({7: 'seven'}, 'rack:slot') }}|{{ salt['grains.filter_by']({'Debian': none, 'default': 2}) }}",
            "seven|2",
        ),
        (
            "{{ salt['grains.filter_by']({'Debian': 1}, merge={'a': 1}) }}",
            "ZA0802: `grains.filter_by` failed: only mappings can be merged, not 'int' and 'dict'",
        ),
        (
            "{{ salt['grains.filter_by']({'Debian': {'x': 1}}, merge=[1]) }}",
            "ZA0802: `grains.filter_by` failed: `merge` must be a mapping, not 'list'",
        ),
        (
            "{{ salt['grains.filter_by']({'Debian': 3, 'b': {'c': 4}}, base='b') }}",
            "ZA0802: `grains.filter_by` failed: the base is a mapping, but the choice is 'int'",
        ),
        (
            "{{ salt['grains.filter_by']([1]) }}",
            "ZA0802: `grains.filter_by` failed: the lookup must be a mapping, not 'list'",
        ),
        ("{{ salt['pillar.filter_by']({'sec*': 1}, 's') }}", "1"),
    ]);
}

#[test]
fn config() {
    check(&[
        (
            "{{ salt['config.get']('mycfg') }}|{{ salt['config.get']('nestcfg:k') }}|{{ salt['config.get']('env_type') }}|{{ salt['config.get']('a:n:y') }}",
            "fromopts|v|staging|2",
        ),
        (
            "{{ salt['config.get']('nosuch:key', 'dd') }}|{{ salt['config.get']('id') }}|{{ salt['config.get']('env_type', 'x', omit_grains=True) }}",
            "dd|testminion|frompillar",
        ),
        (
            "{{ salt['config.get']('mk') }}|{{ salt['config.get']('hosts.file') }}|{{ salt['config.get']('nope', none) }}|{{ salt['config.get']('nul', 'dd') }}|{{ salt['config.get']('virt:tunnel') }}",
            "mv|/etc/hosts|None|None|False",
        ),
        (
            "{{ salt['config.get']('mm') }}|{{ salt['config.get']('mm', merge='overwrite') }}",
            "{'a': {'x': 1}, 'l': [1]}|{'a': {'x': 1}, 'l': [1]}",
        ),
        (
            "{{ salt['config.get']('mm', merge='recurse')['a'] }}|{{ salt['config.get']('nosuch', {'d': 1}, merge='recurse') }}",
            "{'y': 2, 'x': 1}|{'d': 1}",
        ),
        (
            "{{ salt['config.option']('roles') }}|{{ salt['config.option']('nope') }}|{{ salt['config.option']('mk') }}|{{ salt['config.option']('redis.*', wildcard=true) }}",
            "['web', 'db']||mv|{'redis.db': '0', 'redis.host': 'salt', 'redis.port': 6379}",
        ),
        (
            "{{ salt['config.manage_mode'](644) }}|{{ salt['config.manage_mode']('0755') }}|{{ salt['config.manage_mode']('04755') }}|{{ salt['config.manage_mode'](none) }}|{{ salt['config.manage_mode'](0) }}",
            "0644|0755|4755|None|0000",
        ),
        (
            "{{ salt['config.merge']('mm') }}|{{ salt['config.backup_mode']() }}|{{ salt['config.valid_fileproto']('salt://x') }}",
            "{'a': {'x': 1}, 'l': [1], 'extra': 1}||True",
        ),
    ]);
}

#[test]
fn merging() {
    check(&[
        (
            "{{ salt['slsutil.merge'](d, u, strategy='aggregate') }}",
            "{'n': {'y': 1}, 'l': [1, 3], 'Debian': {'a': 1}, 'm': {'t': 1}}",
        ),
        (
            "{{ salt['slsutil.merge'](d, u, strategy='list') }}",
            "{'n': [{'x': 1}, {'y': 1}], 'l': [[1], [1, 3]], 'Debian': {'a': 1}}",
        ),
        (
            "{{ salt['slsutil.merge']({'a': {'l': [1]}}, {'a': {'l': [1, 2]}}, merge_lists=True) }}|{{ salt['slsutil.merge']({'a': 1}, {'b': 1}, 'bogus') }}",
            "{'a': {'l': [1, 2]}}|{'a': 1, 'b': 1}",
        ),
        (
            "{{ salt['slsutil.merge_all']([{'a': 1}, {'b': {'c': 1}}, {'b': {'d': 2}}]) }}",
            "{'a': 1, 'b': {'c': 1, 'd': 2}}",
        ),
        (
            "{{ salt['slsutil.update']({'a': {'x': 1}}, {'a': {'y': 1}}, recursive_update=False) }}",
            "{'a': {'y': 1}}",
        ),
        (
            "{{ salt['slsutil.merge']({'a': 1}, none) }}",
            "ZA0802: `slsutil.merge` failed: only mappings can be merged, not 'dict' and 'NoneType'",
        ),
        (
            "{{ salt['defaults.merge'](none, {'a': 1}) }}",
            "ZA0802: `defaults.merge` failed: cannot merge into `none` in place",
        ),
        (
            "{{ salt['defaults.merge'](none, {'a': 1}, in_place=False) }}|{{ salt['defaults.merge']({'a': 1}, none) }}",
            "{'a': 1}|{'a': 1}",
        ),
        (
            "{{ salt['defaults.update']({'h1': {'x': 1}, 'h2': none}, {'x': 0, 'l': [1]}) }}",
            "{'h1': {'x': 1, 'l': [1]}, 'h2': {'x': 0, 'l': [1]}}",
        ),
        (
            "{{ salt['defaults.get']('core:x') }}|{{ salt['defaults.get']('core:z', 'no') }}|{{ salt['defaults.get']('core') }}",
            "{'y': 5}|no|{'x': {'y': 5}}",
        ),
        ("{{ salt['defaults.deepcopy']({'a': [1]}) }}", "{'a': [1]}"),
    ]);
}

#[test]
fn files_of_the_tree() {
    check(&[
        ("{{ salt['cp.list_states']() }}", "['m1', 'top', 'web', 'web.app']"),
        (
            "{{ salt['cp.list_master_dirs']() }}|{{ salt['cp.list_master_dirs'](prefix='core/') }}",
            "['core', 'core/sub', 'web']|['core/sub']",
        ),
        (
            "{{ salt['cp.list_master'](prefix='core') }}|{{ salt['cp.list_master']('nope') }}",
            "['core/defaults.json', 'core/sub/f', 'core/x.txt']|[]",
        ),
        (
            "{{ salt['cp.get_file_str']('salt://core/x.txt') }}|{{ salt['cp.get_file_str']('salt://core/nope') }}",
            "hi\n|False",
        ),
        (
            "{{ salt['cp.hash_file']('salt://core/x.txt').hsum[:8] }}|{{ salt['cp.cache_file']('salt://core/x.txt') }}|{{ salt['cp.cache_file']('salt://no') }}",
            "98ea6e4f|/tree/core/x.txt|False",
        ),
        (
            "{{ salt['slsutil.path_exists']('m1.sls') }}|{{ salt['slsutil.file_exists']('nope') }}|{{ salt['slsutil.dir_exists']('core') }}|{{ salt['slsutil.dir_exists']('') }}",
            "True|False|True|False",
        ),
        (
            "{{ salt['slsutil.findup']('core/sub', 'm1.sls') }}|{{ salt['slsutil.findup']('core/sub', ['zz', 'x.txt']) }}|{{ salt['slsutil.findup']('', 'm1.sls') }}",
            "m1.sls|core/x.txt|m1.sls",
        ),
        (
            "{{ salt['slsutil.findup']('core/nope', 'm1.sls') }}",
            "ZA0802: `slsutil.findup` failed: start path `core/nope` is not in the state tree",
        ),
        (
            "{{ salt['slsutil.renderer']('salt://m1.sls', v=3) }}",
            "{'jinja|yaml': 'base:m1.sls', 'vars': {'v': 3}}",
        ),
        (
            "{{ salt['slsutil.renderer'](string='a: 1', default_renderer='yaml') }}|{{ salt['slsutil.renderer']('salt://nope') }}",
            "{'yaml': 'a: 1', 'vars': {}}|{}",
        ),
        ("{{ salt['slsutil.renderer']() }}", "ZA0804: `slsutil.renderer` needs `path` or `string`"),
    ]);
}

#[test]
fn matching() {
    check(&[
        (
            "{{ salt['match.glob']('t*') }}|{{ salt['match.glob']('t*', 'xx') }}|{{ salt['match.compound']('G@os:Debian and test*') }}",
            "True|False|True",
        ),
        (
            "{{ salt['match.grain']('roles:web') }}|{{ salt['match.grain_pcre']('os:D.*') }}|{{ salt['match.pcre']('t.*n') }}|{{ salt['match.ipcidr']('127.0.0.0/8') }}",
            "True|True|True|True",
        ),
        (
            "{{ salt['match.list']('a,testminion') }}|{{ salt['match.list'](['a', 'testminion']) }}|{{ salt['match.pillar']('s:secret') }}|{{ salt['match.pillar_pcre']('s:sec.*') }}",
            "True|True|True|True",
        ),
        (
            "{{ salt['match.compound']('t*', minion_id='zz') }}|{{ salt['match.grain']('os|D*', delimiter='|') }}",
            "False|True",
        ),
        (
            "{{ salt['match.filter_by']({'db*': 1, 't*': 2}) }}|{{ salt['match.filter_by']({'db*': 1, 'default': 3}) }}|{{ salt['match.filter_by']({'db*': 1}) }}",
            "2|3|None",
        ),
        (
            "{{ salt['match.ifelse']('db*', 1, 't*', 2, 3) }}|{{ salt['match.ifelse']('db*', 1, false, 2, 3) }}|{{ salt['match.ifelse']('db*', 1, true, 2, 3) }}|{{ salt['match.ifelse'](7) }}|{{ salt['match.ifelse']('db*', 1, 2, minion_id='db1') }}",
            "2|3|2|7|1",
        ),
        (
            "{{ salt['match.filter_by']({'t*': {'a': 1}}, merge={'b': 1}) }}|{{ salt['match.filter_by']({'db*': 1}, minion_id='db1') }}|{{ salt['match.filter_by']({'os:D*': 1}, tgt_type='grain') }}",
            "{'a': 1, 'b': 1}|1|1",
        ),
        (
            "{{ salt['match.search_by']({'a': ['t*'], 'b': ['G@os:Debian', 'E@t.*'], 'c': ['zz']}) }}|{{ salt['match.search_by']({'c': ['zz']}) }}",
            "['a', 'b', 'b']|None",
        ),
    ]);
}

#[test]
fn numbers_and_texts() {
    check(&[
        (
            "{{ salt['network.calc_net']('172.17.0.5', '255.255.255.240') }}|{{ salt['network.calc_net']('172.17.0.5/20') }}|{{ salt['network.calc_net']('2a02:f6e:a000:80:84d8:8332:7866:4162/64') }}|{{ salt['network.calc_net']('172.17.0.5', 20) }}|{{ salt['network.calc_net']('172.17.0.5') }}|{{ salt['network.calc_net']('10.0.0.5/0.0.0.255') }}",
            "172.17.0.0/28|172.17.0.0/20|2a02:f6e:a000:80::/64|172.17.0.0/20|172.17.0.5/32|10.0.0.0/24",
        ),
        (
            "{{ salt['network.ip_in_subnet']('172.17.0.4', '172.16.0.0/12') }}|{{ salt['network.ip_in_subnet']('1.2.3.4', '172.16.0.0/12') }}|{{ salt['network.ip_in_subnet']('10.1.1.1', '10.0.0.1/8') }}|{{ salt['network.ip_in_subnet']('1.2.3.4', 'xx') }}|{{ salt['network.ip_in_subnet'](['10.1.1.1'], '10.0.0.0/8') }}",
            "True|False|False|False|True",
        ),
        (
            "{{ salt['network.ip_in_subnet']('xx', '10.0.0.0/8') }}",
            "ZA0802: `network.ip_in_subnet` failed: `xx` is not an IP address",
        ),
        (
            "{{ salt['network.is_private']('192.0.2.1') }}|{{ salt['network.is_private']('fd00::1') }}|{{ salt['network.is_private']('8.8.8.8') }}|{{ salt['network.is_loopback']('::1') }}|{{ salt['network.reverse_ip']('127.0.0.1') }}",
            "True|True|False|True|1.0.0.127.in-addr.arpa",
        ),
        (
            "{{ salt['network.convert_cidr']('2001:db8::/32') }}",
            "{'network': '2001:db8::', 'netmask': 'ffff:ffff::', 'broadcast': '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'}",
        ),
        (
            "{{ salt['hashutil.digest']('abc') }}|{{ salt['hashutil.sha256_digest']('abc')[:8] }}|{{ salt['hashutil.base64_b64encode']('abc?>') }}|{{ salt['hashutil.base64_b64decode']('YWJj') }}|{{ salt['hashutil.base64_encodestring']('abc') }}",
            "900150983cd24fb0d6963f7d28e17f72|ba7816bf|YWJjPz4=|abc|YWJj\n",
        ),
        (
            "{{ salt['hashutil.hmac_signature']('get salted', 'shared secret', 'eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ=') }}|{{ salt['hashutil.hmac_compute']('get salted', 'shared secret')[:8] }}",
            "True|78159ff5",
        ),
        (
            "{{ salt['hashutil.digest']('abc', 'nope') }}",
            "ZA0802: `hashutil.digest` failed: `nope` must be one of `md5`, `sha256`, `sha512`",
        ),
        (
            "{{ salt['random.hash']('I am a string', algorithm='md5') }}|{{ salt['random.seed']() }}|{{ salt['random.seed'](100) }}|{{ salt['random.rand_int'](1, 10, 5) }}|{{ salt['random.rand_int'](1, 100, 'seed') }}",
            "1710528bf976601a5d203cbc289e1a76|1|9|10|18",
        ),
        (
            "{{ salt['pkg.version_cmp']('1.0', '1.0-1') }}|{{ salt['pkg.version_cmp']('1:1.0', '2.0') }}|{{ salt['pkg.version_cmp']('1:1.0', '2.0', ignore_epoch=True) }}|{{ salt['pkg.version_cmp']('', '246') }}",
            "-1|1|-1|-1",
        ),
        ("{{ salt['slsutil.boolstr'](true) }}|{{ salt['slsutil.boolstr'](0, 'yes', 'no') }}", "true|no"),
        (
            "{{ salt['file.dirname']('/a/b/') }}|{{ salt['file.basename']('/a/b.c') }}|{{ salt['file.join']('a', '/b', 'c') }}",
            "/a/b|b.c|/b/c",
        ),
    ]);
}

#[test]
fn the_salt_object() {
    check(&[
        (
            "{{ salt.test.echo('x') }}|{{ salt.get('test.echo')('z') }}|{{ salt.get('nope', 3) }}|{{ salt.get('nope') is none }}",
            "x|z|3|True",
        ),
        (
            "{{ 'test.echo' in salt }}|{{ 'nope.x' in salt }}|{{ salt['nope.x'] is defined }}|{{ salt['nope.x']|default('dd') }}",
            "True|False|False|dd",
        ),
        (
            "{{ salt.nope is defined }}|{{ salt.test is defined }}|{{ salt.test.nope is defined }}|{{ salt.cmd.run is defined }}",
            "False|True|False|True",
        ),
        (
            "{{ salt['pillar.gett']('a') }}",
            "ZA0801: function `pillar.gett` is not available in templates (did you mean `pillar.get`?)",
        ),
        (
            "{{ salt.pillar.gett('a') }}",
            "ZA0801: function `pillar.gett` is not available in templates (did you mean `pillar.get`?)",
        ),
        (
            "{{ salt['user.add']('x') }}",
            "ZA0801: function `user.add` is not available in templates (test for it in the template: `if 'user.add' in salt`)",
        ),
        (
            "{{ salt['mine.delete_everything']('x') }}",
            "ZA0801: function `mine.delete_everything` is not available in templates (`mine` has `mine.get`, `mine.valid`)",
        ),
        ("{{ salt['cmd.run']('id') }}", "ZA0803: `cmd.run`: `templates.cmd_run` is off"),
        ("{{ salt['file.contains']('/x', 'y') }}", "ZA0802: `file.contains` failed: cannot read `/x`"),
        ("{{ salt['file.file_exists']('/etc/passwd') }}", "True"),
        ("{{ salt['pillar.get'](nosuch) }}", "ZA0804: argument 1 of `pillar.get` is undefined"),
    ]);
}

#[test]
fn test_functions_and_the_log() {
    check(&[
        (
            "{{ salt['test.arg'](1, 'two', k=3) }}|{{ salt['test.kwarg'](a=1) }}|{{ salt['test.arg_repr'](1, a=2) }}",
            "{'args': (1, 'two'), 'kwargs': {'k': 3}}|{'a': 1}|{'args': '(1,)', 'kwargs': \"{'a': 2}\"}",
        ),
        (
            "{{ salt['test.ping']() }}|{{ salt['test.version']() }}|{{ salt['test.provider']('pkg') }}|{{ salt['test.provider']('service') }}|{{ salt['test.provider']('nope') }}|{{ salt['mine.get']('*', 'x') }}",
            "True|3008.3|aptpkg|debian_service||{}",
        ),
        (
            "{{ salt['log.warn']('m') }}",
            "ZA0801: function `log.warn` is not available in templates (`log` has `log.critical`, `log.debug`, `log.error`, `log.exception`, `log.info`, `log.warning`)",
        ),
    ]);
    let sample = SampleFunctions::new();
    assert_eq!(sample.render("{{ salt['log.debug']('hello') }}"), "True");
    assert_eq!(*sample.node.said.lock().unwrap(), ["log.debug hello"]);
}

#[test]
fn hostile_values_end_in_errors() {
    check(&[
        (
            "{% set x = d.update({'d': d}) %}{% set y = u.update({'d': u}) %}{{ salt['slsutil.merge'](d, u) is defined }}",
            "ZA0802: `slsutil.merge` failed: the value contains itself or is nested deeper than 128 levels",
        ),
        (
            "{% set x = d.update({'d': d}) %}{{ salt['defaults.deepcopy'](d) is defined }}",
            "ZA0802: `defaults.deepcopy` failed: the value contains itself or is nested deeper than 128 levels",
        ),
        (
            "{{ salt['slsutil.banner'](width=99999999999) }}",
            "ZA0802: `slsutil.banner` failed: the width is too small for a banner",
        ),
        ("{{ salt['random.seed'](0) }}", "ZA0802: `random.seed` failed: `range` must be a number above zero"),
    ]);
}

#[test]
fn serializers() {
    check(&[
        (
            "{{ salt['slsutil.serialize']('json', {'b': 1, 'a': [1, 'é', none]}) }}",
            "{\"b\": 1, \"a\": [1, \"é\", null]}",
        ),
        ("{{ salt['slsutil.serialize']('json', {'b': [1]}, indent=2) }}", "{\n  \"b\": [\n    1\n  ]\n}"),
        (
            "{{ salt['slsutil.serialize']('yaml', {'b': 1, 'a': [1, 'é', none]}) }}",
            "a: [1, \"\\xE9\", null]\nb: 1",
        ),
        (
            "{{ salt['slsutil.serialize']('yaml', {'b': 1, 'a': [1, {'k': 2}]}, default_flow_style=False) }}",
            "a:\n- 1\n- k: 2\nb: 1",
        ),
        (
            "{{ salt['slsutil.serialize']('yaml', 'x') }}|{{ salt['slsutil.serialize']('yaml', none) }}|{{ salt['slsutil.serialize']('yaml', {}) }}|{{ salt['slsutil.serialize']('yaml', {'a': {'b': [1]}}) }}",
            "x|null|{}|a:\n  b: [1]",
        ),
        (
            "{{ salt['slsutil.serialize']('configparser', {'Sec': {'Key': 1, 'b': 'x'}, 't': {}}) }}|",
            "[Sec]\nkey = 1\nb = x\n\n[t]\n\n|",
        ),
        (
            "{{ salt['slsutil.deserialize']('configparser', '[a]\nb = 1\n[B]\nC: x y') }}",
            "{'a': {'b': '1'}, 'B': {'c': 'x y'}}",
        ),
        (
            "{{ salt['slsutil.deserialize']('json', '{\"a\": [1, 2.5]}') }}|{{ salt['slsutil.deserialize']('yaml', 'a: [1, yes]') }}",
            "{'a': [1, 2.5]}|{'a': [1, True]}",
        ),
        ("{{ salt['toml_lang.dumps']({'a': 1, 't': {'x': 'y'}}) }}", "a = 1\n\n[t]\nx = \"y\"\n"),
        (
            "{{ salt['slsutil.serialize']('nope', {}) }}",
            "ZA0802: `slsutil.serialize` failed: unknown serializer `nope`: use `json`, `yaml`, `configparser` or `toml`",
        ),
        (
            "{{ salt['slsutil.deserialize']('json', '{') is defined }}",
            "ZA0802: `slsutil.deserialize` failed: the text is not JSON: EOF while parsing an object at line 1 column 1",
        ),
    ]);
}
