"""What there is of Kubernetes' CEL libraries: for each function some expressions that are true.

docs/policies/cel.md lists the same names; a test compares.
"""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "core": {
        "all": ("[1, 2].all(x, x > 0)",),
        "exists": ("[1, 2].exists(x, x > 1)",),
        "exists_one": ("[1, 2].exists_one(x, x > 1)",),
        "filter": ("[1, 2].filter(x, x > 1) == [2]",),
        "map": ("[1, 2].map(x, x + 1) == [2, 3]", "[1, 2].map(x, x > 1, x + 1) == [3]"),
        "has": ("has({'a': 1}.a)",),
        "size": ("size('äb') == 2", "[1].size() == 1"),
        "contains": ("'abc'.contains('b')",),
        "startsWith": ("'abc'.startsWith('ab')",),
        "endsWith": ("'abc'.endsWith('bc')",),
        "matches": ("'abc'.matches('^a.c$')", "matches('abc', 'b')"),
        "timestamp": ("timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020",),
        "duration": ("duration('90m') == duration('1.5h')",),
        "string": ("string(1) == '1'",),
        "int": ("int('1') == 1",),
        "double": ("double('1.5') == 1.5",),
        "type": ("type(1) == int",),
        "dyn": ("dyn(1) == 1",),
        "cel.bind": ("cel.bind(x, 1, x + x) == 2",),
    },
    "optional types": {
        ".?": ("{'a': 1}.?a.orValue(2) == 1", "{}.?a.?b.orValue(2) == 2"),
        "[?]": ("{'a': 1}[?'b'].orValue(2) == 2", "[1][?3].orValue(2) == 2"),
        "hasValue": ("!{}.?a.hasValue()",),
        "value": ("optional.of(1).value() == 1",),
        "or": ("{}.?a.or(optional.of(3)).orValue(2) == 3",),
        "orValue": ("optional.none().orValue(2) == 2",),
        "optMap": ("optional.of(1).optMap(x, x + 1).orValue(0) == 2",),
        "optFlatMap": ("optional.of(1).optFlatMap(x, optional.of(x)).orValue(0) == 1",),
        "optional.of": ("optional.of(1) == optional.of(1)",),
        "optional.none": ("!optional.none().hasValue()",),
        "optional.ofNonZeroValue": ("!optional.ofNonZeroValue('').hasValue()",),
    },
    "two-variable comprehensions": {
        "all (k, v)": ("{'a': 1}.all(k, v, k == 'a' && v == 1)",),
        "exists (k, v)": ("['a'].exists(i, v, i == 0 && v == 'a')",),
        "existsOne": ("['a', 'b'].existsOne(i, v, v == 'b')",),
        "transformList": (
            "{'b': 2, 'a': 1}.transformList(k, v, k) == ['a', 'b']",
            "['x', 'y'].transformList(i, v, i > 0, v) == ['y']",
        ),
        "transformMap": ("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",),
        "transformMapEntry": ("{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",),
    },
    "strings": {
        "charAt": ("'abc'.charAt(1) == 'b'",),
        "indexOf": ("'abcb'.indexOf('b') == 1", "'abcb'.indexOf('b', 2) == 3"),
        "lastIndexOf": ("'abcb'.lastIndexOf('b') == 3",),
        "join": ("['a', 'b'].join('-') == 'a-b'",),
        "lowerAscii": ("'AB'.lowerAscii() == 'ab'",),
        "upperAscii": ("'ab'.upperAscii() == 'AB'",),
        "replace": ("'aba'.replace('a', 'c') == 'cbc'", "'aba'.replace('a', 'c', 1) == 'cba'"),
        "split": ("'a,b'.split(',') == ['a', 'b']",),
        "substring": ("'abc'.substring(1) == 'bc'", "'abc'.substring(0, 1) == 'a'"),
        "trim": ("' a '.trim() == 'a'",),
        "reverse": ("'ab'.reverse() == 'ba'",),
        "format": ("'%s is %d, %.1f'.format(['a', 1, 2.0]) == 'a is 1, 2.0'",),
        "strings.quote": ("strings.quote('a') == '\"a\"'",),
    },
    "lists": {
        "isSorted": ("[1, 2, 2].isSorted()", "!['b', 'a'].isSorted()", "[].isSorted()"),
        "sum": (
            "[1, 2].sum() == 3",
            "[1.5, 2.0].sum() == 3.5",
            "[].sum() == 0",
            "[duration('1s'), duration('2s')].sum() == duration('3s')",
        ),
        "min": ("[2, 1].min() == 1", "['b', 'a'].min() == 'a'"),
        "max": ("[2, 1].max() == 2",),
        "indexOf (list)": (
            "[1, 2, 1].indexOf(1) == 0",
            "[1].indexOf(2) == -1",
            "[1].indexOf(true) == -1",
        ),
        "lastIndexOf (list)": ("[1, 2, 1].lastIndexOf(1) == 2",),
        "distinct": ("[1, 2, 1].distinct() == [1, 2]",),
        "flatten": ("[[1], [2]].flatten() == [1, 2]",),
        "reverse (list)": ("[1, 2].reverse() == [2, 1]",),
        "slice": ("[1, 2, 3].slice(0, 2) == [1, 2]",),
        "sort": ("[2, 1].sort() == [1, 2]",),
        "sortBy": ("[{'a': 2}, {'a': 1}].sortBy(x, x.a)[0].a == 1",),
        "first": ("[1, 2].first().orValue(0) == 1",),
        "last": ("[1, 2].last().orValue(0) == 2",),
        "lists.range": ("lists.range(3) == [0, 1, 2]",),
    },
    "sets": {
        "sets.contains": ("sets.contains([1, 2], [2])",),
        "sets.equivalent": ("sets.equivalent([1, 2], [2, 1, 1])",),
        "sets.intersects": ("sets.intersects([1], [1, 2])",),
    },
    "regex": {
        "find": (
            "'abc 123'.find('[0-9]+') == '123'",
            "'abc'.find('[0-9]') == ''",
            "'ab'.find('(a)(b)') == 'ab'",
        ),
        "findAll": (
            "'12 34'.findAll('[0-9]+') == ['12', '34']",
            "'12 34'.findAll('([0-9])([0-9])', 1) == ['12']",
            "'ab'.findAll('[0-9]') == []",
        ),
    },
    "quantity": {
        "quantity": ("quantity('1Gi') == quantity('1024Mi')", "quantity(1) == quantity('1000m')"),
        "isQuantity": ("isQuantity('1Gi')", "!isQuantity('1 Gi')", "isQuantity(8)"),
        "sign": ("quantity('-1').sign() == -1", "quantity('0').sign() == 0"),
        "isInteger": ("quantity('2k').isInteger()", "!quantity('1m').isInteger()"),
        "asInteger": ("quantity('2k').asInteger() == 2000",),
        "asApproximateFloat": ("quantity('500m').asApproximateFloat() == 0.5",),
        "add": (
            "quantity('1').add(quantity('1')) == quantity('2')",
            "quantity('1').add(1) == quantity('2')",
        ),
        "sub": (
            "quantity('1').sub(quantity('500m')) == quantity('500m')",
            "quantity('1').sub(1).sign() == 0",
        ),
        "isLessThan": ("quantity('1Mi').isLessThan(quantity('1Gi'))",),
        "isGreaterThan": ("quantity('1Gi').isGreaterThan(quantity('1Mi'))",),
        "compareTo": (
            "quantity('1').compareTo(quantity('2')) == -1",
            "quantity('1k').compareTo(quantity('1000')) == 0",
        ),
    },
    "semver": {
        "semver": (
            "semver('1.2.3') == semver('1.2.3+build')",
            "semver('v1.2', true) == semver('1.2.0')",
        ),
        "isSemver": (
            "isSemver('1.2.3-rc.1')",
            "!isSemver('1.2')",
            "isSemver('v1.02', true)",
            "!isSemver('1.02.3')",
        ),
        "major": ("semver('1.2.3').major() == 1",),
        "minor": ("semver('1.2.3').minor() == 2",),
        "patch": ("semver('1.2.3-rc.1').patch() == 3",),
        "isLessThan (semver)": (
            "semver('1.2.3').isLessThan(semver('1.10.0'))",
            "semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
            "semver('1.0.0-rc.2').isLessThan(semver('1.0.0-rc.10'))",
        ),
        "isGreaterThan (semver)": ("semver('2.0.0').isGreaterThan(semver('1.9.9'))",),
        "compareTo (semver)": ("semver('1.0.0').compareTo(semver('1.0.0')) == 0",),
    },
    "ip": {
        "ip": ("ip('10.0.0.1') == ip('10.0.0.1')", "string(ip('::1')) == '::1'"),
        "isIP": (
            "isIP('::1')",
            "!isIP('10.0.0.256')",
            "!isIP('fe80::1%eth0')",
            "!isIP('::ffff:1.2.3.4')",
        ),
        "ip.isCanonical": ("ip.isCanonical('::1')", "!ip.isCanonical('0::1')"),
        "family": ("ip('10.0.0.1').family() == 4", "ip('::1').family() == 6"),
        "isUnspecified": ("ip('0.0.0.0').isUnspecified()",),
        "isLoopback": ("ip('127.0.0.1').isLoopback()",),
        "isLinkLocalMulticast": (
            "ip('224.0.0.1').isLinkLocalMulticast()",
            "ip('ff02::1').isLinkLocalMulticast()",
        ),
        "isLinkLocalUnicast": ("ip('169.254.1.1').isLinkLocalUnicast()",),
        "isGlobalUnicast": (
            "ip('10.0.0.1').isGlobalUnicast()",
            "!ip('127.0.0.1').isGlobalUnicast()",
        ),
    },
    "cidr": {
        "cidr": ("string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",),
        "isCIDR": (
            "isCIDR('10.0.0.0/8')",
            "!isCIDR('10.0.0.0')",
            "!isCIDR('10.0.0.0/255.0.0.0')",
            "!isCIDR('10.0.0.0/33')",
        ),
        "containsIP": (
            "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
            "!cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        ),
        "containsCIDR": (
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
            "!cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))",
        ),
        "ip (of a cidr)": ("cidr('10.1.0.0/8').ip() == ip('10.1.0.0')",),
        "masked": ("cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')",),
        "prefixLength": ("cidr('10.0.0.0/8').prefixLength() == 8",),
    },
    "url": {
        "url": ("url('https://a.b/c') == url('https://a.b/c')",),
        "isURL": (
            "isURL('https://a.b')",
            "isURL('/a')",
            "!isURL('a.b')",
            "!isURL('https://a b')",
            "!isURL('https://a:x/')",
        ),
        "getScheme": ("url('https://a.b').getScheme() == 'https'", "url('/a').getScheme() == ''"),
        "getHost": ("url('https://u@a.b:80/c').getHost() == 'a.b:80'",),
        "getHostname": (
            "url('https://[::1]:80/c').getHostname() == '::1'",
            "url('https://a.b').getHostname() == 'a.b'",
        ),
        "getPort": (
            "url('https://[::1]:80/c').getPort() == '80'",
            "url('https://a.b').getPort() == ''",
        ),
        "getEscapedPath": (
            "url('https://a.b/c d'.replace(' ', '%20')).getEscapedPath() == '/c%20d'",
        ),
        "getQuery": ("url('/a?b=c&b=d').getQuery() == {'b': ['c', 'd']}",),
    },
    "format": {
        "format.named": (
            "format.named('dns1123Label').hasValue()",
            "!format.named('nothing').hasValue()",
        ),
        "validate": (
            "!format.dns1123Label().validate('ab').hasValue()",
            "format.dns1123Label().validate('A_').value().size() > 0",
        ),
        "format.dns1123Label": ("!format.dns1123Label().validate('a-b').hasValue()",),
        "format.dns1123Subdomain": ("!format.dns1123Subdomain().validate('a.b').hasValue()",),
        "format.dns1035Label": ("format.dns1035Label().validate('1a').hasValue()",),
        "format.qualifiedName": ("!format.qualifiedName().validate('a.b/c_d').hasValue()",),
        "format.dns1123LabelPrefix": ("!format.dns1123LabelPrefix().validate('a-').hasValue()",),
        "format.dns1123SubdomainPrefix": (
            "!format.dns1123SubdomainPrefix().validate('a.b-').hasValue()",
        ),
        "format.dns1035LabelPrefix": ("!format.dns1035LabelPrefix().validate('a-').hasValue()",),
        "format.labelValue": (
            "!format.labelValue().validate('').hasValue()",
            "format.labelValue().validate('-').hasValue()",
        ),
        "format.uri": (
            "!format.uri().validate('https://a.b').hasValue()",
            "format.uri().validate('a b').hasValue()",
        ),
        "format.uuid": (
            "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        ),
        "format.byte": (
            "!format.byte().validate('YQ==').hasValue()",
            "format.byte().validate('a').hasValue()",
        ),
        "format.date": (
            "!format.date().validate('2024-02-29').hasValue()",
            "format.date().validate('2023-02-29').hasValue()",
        ),
        "format.datetime": (
            "!format.datetime().validate('2024-01-01T00:00:00.5Z').hasValue()",
            "format.datetime().validate('2024-01-01').hasValue()",
        ),
    },
    "beyond Kubernetes": {
        "math.*": ("math.greatest([1, 2]) == 2", "math.abs(-1) == 1"),
        "base64.encode": ("base64.encode(b'a') == 'YQ=='",),
        "base64.decode": ("base64.decode('YQ==') == b'a'",),
        "regex.replace": ("regex.replace('ab', 'a', 'c') == 'cb'",),
        "regex.extract": ("regex.extract('a1', '[0-9]').orValue('') == '1'",),
        "regex.extractAll": ("regex.extractAll('a1b2', '[0-9]') == ['1', '2']",),
    },
}

MISSING: Final[dict[str, str]] = {
    "authorizer": "authorizer.group('').resource('pods').check('get').allowed()",
    "authorizer.requestResource": "authorizer.requestResource.check('get').allowed()",
    "jsonpatch.escapeKey": "jsonpatch.escapeKey('a/b') == 'a~1b'",
    "Object{...}": "Object{spec: Object.spec{suspend: true}} == null",
}
"""What Kubernetes has and we have not; none of it compiles."""
