// tier: all (attacks on the whole program)
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { Template } from "@huggingface/jinja";
import { AppError } from "../../src/lib/errors.ts";
import { compileTemplate } from "../../src/workers/serving/jinja.ts";
import { createChatTemplate } from "../../src/workers/serving/template.ts";

setDefaultTimeout(120_000);
/** Marks that a template would leave or print if it escaped from the sandbox. */
const MARK = "t3mplate-got-out";
const globals = globalThis as Record<string, unknown>;
globals["templateSecret"] = MARK;
afterEach(() => {
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  expect(globals["owned"]).toBeUndefined();
});

const facts = { bosToken: "<s>", eosToken: "</s>", toolTemplate: null };
const render = (chatTemplate: string, variables: Record<string, unknown> = {}) =>
  createChatTemplate({ ...facts, chatTemplate }).render({
    messages: [{ role: "user", content: "hi" }],
    tools: [],
    variables,
    quote: (text) => text,
  });
const outcome = (template: string): string => {
  try {
    return `made ${render(template)}`;
  } catch (error) {
    if (error instanceof AppError && error.status === 400) return "refused";
    throw error;
  }
};

/** Each looks for a way to JavaScript: a constructor, a prototype, a global, a module. */
const ESCAPES = [
  "{{ ''.constructor.constructor('return templateSecret')() }}",
  "{{ [].constructor.constructor('return templateSecret')() }}",
  "{{ {}.constructor.constructor('return templateSecret')() }}",
  "{{ messages.constructor.constructor('return templateSecret')() }}",
  "{{ messages[0].constructor.constructor('return templateSecret')() }}",
  "{{ range.constructor('return templateSecret')() }}",
  "{{ range.__proto__.constructor('return templateSecret')() }}",
  "{{ range['constructor']('return templateSecret')() }}",
  "{{ strftime_now.constructor('return templateSecret')() }}",
  "{{ raise_exception.constructor('return templateSecret')() }}",
  "{{ messages['__proto__']['constructor'] }}",
  "{{ messages[0]['__proto__']['polluted'] }}{% set x = messages[0].__proto__ %}{{ x }}",
  "{% set ns = namespace(a=1) %}{% set ns.__proto__ = {'polluted': 1} %}{{ ns.polluted }}",
  "{% set ns = namespace() %}{% set ns.constructor = 1 %}{{ ns.constructor }}",
  "{% set x = {'__proto__': {'polluted': 1}} %}{{ x }}",
  "{% set __proto__ = {'polluted': 1} %}{{ __proto__ }}",
  "{{ globalThis.templateSecret }}",
  "{{ templateSecret }}",
  "{{ process.env }}{{ process.mainModule }}",
  "{{ require('fs').readFileSync('/etc/passwd') }}",
  "{{ import('fs') }}",
  "{{ Bun.file('/etc/passwd') }}",
  "{{ self.__init__.__globals__ }}",
  "{{ ''.__class__.__mro__[1].__subclasses__() }}",
  "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
  "{{ lipsum.__globals__['os'].popen('id').read() }}",
  "{{ config.items() }}{{ request.application }}",
  "{% include '/etc/passwd' %}",
  "{% import '/etc/passwd' as x %}{{ x }}",
  "{% extends '/etc/passwd' %}",
  "{{ messages | map('constructor') | list }}",
  "{{ messages | map(attribute='__proto__') | list }}",
  "{{ messages | selectattr('constructor') | list }}",
  "{{ '' | attr('constructor') }}",
  "{{ messages[0] | tojson | safe }}{{ ''.format.__globals__ }}",
  "{% macro m() %}{{ caller.constructor('return templateSecret')() }}{% endmacro %}{{ m() }}",
  "{% set f = range %}{{ f.call.constructor('globalThis.owned = 1')() }}",
  "{{ (1).constructor.constructor('globalThis.owned = 1')() }}",
  "{{ true.constructor.constructor('globalThis.owned = 1')() }}",
  "{{ messages.toString.constructor('globalThis.owned = 1')() }}",
];

/** Each takes, or would take, for ever or all memory. */
const FLOODS = [
  "{% for i in range(1000000000) %}x{% endfor %}",
  "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
  "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
  "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
  "{% macro m(x) %}{{ m(x + x) }}{% endmacro %}{{ m('x') }}",
  `{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}`,
  `{% set ns = namespace(s=[1]) %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}`,
  "{{ range(0, 1, 0.0000000001) }}",
  "{{ range(0, 1, 0) }}",
  "{{ range(-1e308, 1e308) }}",
  `${"{% if true %}".repeat(20_000)}x${"{% endif %}".repeat(20_000)}`,
  `{{ ${"(".repeat(20_000)}1${")".repeat(20_000)} }}`,
  `{{ ${"[".repeat(20_000)}${"]".repeat(20_000)} }}`,
  `{{ ${"not ".repeat(20_000)}true }}`,
  `{{ 'x' ${"| upper ".repeat(20_000)} }}`,
];

describe("a template that tries to escape", () => {
  test.each(ESCAPES.map((template) => [template]))("%s", (template) => {
    const said = outcome(template);
    expect(said).not.toContain(MARK);
    expect(said).not.toMatch(/root:x:|native code|\[Function|uid=\d/);
  });
  test("the list has at least 37 templates", () => expect(ESCAPES.length).toBeGreaterThanOrEqual(37));

  test("cannot misuse variables that a caller names like built-in properties", () => {
    for (const name of ["__proto__", "constructor", "range", "messages", "toString"])
      expect(() => outcome(`{{ ${name} }}`)).not.toThrow(TypeError);
    const sent = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": {"polluted": 1}}');
    expect(render("{{ x }}ok", sent)).toContain("ok");
  });
});

describe("a template without end", () => {
  test.each(FLOODS.map((template) => [template.slice(0, 80), template]))(
    "%s is refused or ends",
    (_shown, template) => {
      expect(outcome(template).length).toBeLessThan(40 * 2 ** 20);
    },
  );

  test("is stopped by our budget: without the budget the same template runs to its end", () => {
    const many = "{% for a in range(3000) %}{% for b in range(1000) %}{{ '' }}{% endfor %}{% endfor %}end";
    expect(() => compileTemplate(many)({})).toThrow("takes too long");
    expect(new Template(many).render({})).toBe("end");
    expect(new Template("{{ x | length }}").render({ x: "y".repeat(40 * 2 ** 20) })).toBe(String(40 * 2 ** 20));
    expect(() => compileTemplate("{{ x + x }}")({ x: "y".repeat(20 * 2 ** 20) })).toThrow("too much text");
  });
});
