import { expect, test } from "bun:test";
import { compileTemplate } from "./jinja.ts";

const VARIABLES = {
  list: [3, 1, 2],
  map: { b: 1, a: { c: [1, null, "x"] } },
  text: "  one two\n",
  message: { role: "user", content: "hi", tool_calls: null },
};

/** Features of Jinja and Python that the chat templates of model families use. */
test.each<[what: string, template: string, expected: string]>([
  ["numbers as keys", "{% set t = {0: 'a', 512: 'b'} %}{{ t[512] }}{{ t[0] }}{{ t[7] is defined }}", "bafalse"],
  [
    "numbers as keys, sorted",
    "{% for k, v in {20: 'b', 3: 'a'} | dictsort %}{% if k <= 20 %}{{ k + 1 }}{{ v }} {% endif %}{% endfor %}",
    "4a 21b ",
  ],
  ["numbers as keys, as items", "{% for k, v in {2: 'b'}.items() %}{{ k + 1 }}{{ v }}{% endfor %}", "3b"],
  ["texts as keys", "{{ {'a': 1}['a'] }}{% for k, v in map | dictsort %}{{ k }}{% endfor %}", "1ab"],
  ["tuples in a list", "{% for a, b in [('x', 1), ('y', 2)] %}{{ a }}{{ b }}{% endfor %}", "x1y2"],
  ["a tuple as a set", "{{ 'x' in ('x', 'y') }}{{ 'z' not in ('x', 'y') }}", "truetrue"],
  ["a namespace", "{% set n = namespace(i=0) %}{% for x in list %}{% set n.i = n.i + x %}{% endfor %}{{ n.i }}", "6"],
  [
    "a macro with defaults",
    "{% macro m(a, b='y') %}{{ a }}{{ b }}{% endmacro %}{{ m('x') }}{{ m('x', b='z') }}",
    "xyxz",
  ],
  [
    "a macro that calls itself",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(2) }}",
    "210",
  ],
  [
    "fields of a loop",
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "10truefalse31;21falsefalse332;32falsetrue31;",
  ],
  [
    "a loop with a condition, continue and break",
    "{% for x in list if x != 1 %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "3",
  ],
  ["slices", "{{ list[1:] }}{{ list[::-1] }}{{ text[2:5] }}{{ list[-1] }}", "[1, 2][2, 1, 3]one2"],
  [
    "tojson",
    "{{ map | tojson }}|{{ map | tojson(indent=2) }}",
    '{"b": 1, "a": {"c": [1, null, "x"]}}|{\n  "b": 1,\n  "a": {\n    "c": [\n      1,\n      null,\n      "x"\n    ]\n  }\n}',
  ],
  ["strip of white space", "[{{ text.strip() }}][{{ text.lstrip() }}]", "[one two][one two\n]"],
  [
    "strip of given characters",
    "[{{ text.strip('\\n') }}][{{ text.rstrip('\\n') }}][{{ 'xyx'.strip('x') }}]",
    "[  one two][  one two][y]",
  ],
  [
    "prefixes and suffixes",
    "{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.startswith('ab') }}",
    "bcabtrue",
  ],
  ["format", "{{ '<{}{}>'.format('a', 1) }}{{ '{x}{{}}'.format(x='b') }}{{ '{1}{0}'.format('c', 'd') }}", "<a1>b{}dc"],
  ["split and join", "{{ 'a,b'.split(',') | join('-') }}{{ 'a b'.split(' ')[-1] }}", "a-bb"],
  ["min and max", "{{ list | min }}{{ list | max }}{{ [] | min is defined }}", "13false"],
  ["an object as a text", "{{ {'a': 1} | string }}", '{"a": 1}'],
  [
    "append and pop",
    "{% set l = [] %}{% set _ = l.append('a') %}{{ l.append(2) }}{{ l }}{% set x = l.pop(0) %}{{ l }}{{ x }}",
    '["a", 2][2]a',
  ],
  ["a missing value in a text", "{{ 'a' + nothing + 'b' }}{{ 'c' ~ message.nothing }}", "abc"],
  ["a missing value in a filter", "[{{ nothing | trim }}{{ nothing | length }}{{ nothing | join(',') }}]", "[0]"],
  ["defaults", "{{ nothing | default('a') }}{{ '' | default('b', true) }}", "ab"],
  [
    "tests",
    "{{ map is mapping }}{{ map is iterable }}{{ map is not iterable }}{{ 1 is number }}{{ none is none }}{{ 'a' is string }}",
    "truetruefalsetruetruetrue",
  ],
  [
    "selectattr and map",
    "{{ [message] | selectattr('role', 'equalto', 'user') | map(attribute='content') | join }}",
    "hi",
  ],
  ["get with a default", "{{ map.get('b') }}{{ map.get('z', 'd') }}", "1d"],
  ["a conditional expression", "{{ 'a' if nothing else 'b' }}{{ ('c' if list) }}", "bc"],
  ["white space control", "a\n{%- if true -%}\n b \n{%- endif -%}\n c", "abc"],
  ["a call block", "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{% endcall %}", "<x>"],
  ["a block that is set", "{% set b %}x{{ 1 }}{% endset %}{{ b }}", "x1"],
  ["comparison and arithmetic", "{{ 7 // 2 }}{{ 7 % 2 }}{{ 2 ** 3 }}{{ 1 < 2 and not false }}", "318true"],
])("%s", (_what, template, expected) => expect(compileTemplate(template)(VARIABLES)).toBe(expected));

test("strftime_now writes the date of today", () => {
  const year = String(new Date().getFullYear());
  expect(compileTemplate("{{ strftime_now('%Y %B') }}")({})).toStartWith(year);
});
