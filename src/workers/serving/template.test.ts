import { describe, expect, test } from "bun:test";
import type { ChatMessage, Tool } from "../../lib/chat/messages.ts";
import { AppError } from "../../lib/errors.ts";
import { createChatTemplate } from "./template.ts";

const PLAIN =
  "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
const NO_SYSTEM = `{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}`;
const DEAF = "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}";
const MISTRAL = `{% for m in messages %}{% if m.role == 'tool' %}[TOOL_RESULTS]{{ m.tool_call_id }}{% if m.tool_call_id | length != 9 %}{{ raise_exception('nine') }}{% endif %}{% elif m.tool_calls %}[TOOL_CALLS]{% for c in m.tool_calls %}{{ c.function | tojson }}{{ c.id }}{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}`;
const TEXT_ARGUMENTS = `{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name + ':' + c.function.arguments }}{% endfor %}{% endfor %}`;
const LLAMA = `{% if tools %}<|python_tag|>{{ tools | tojson }}{% endif %}${PLAIN}`;

const facts = { bosToken: "<s>", eosToken: "</s>", toolTemplate: null };
const make = (chatTemplate: string | null, toolTemplate: string | null = null) =>
  createChatTemplate({ ...facts, chatTemplate, toolTemplate });
const tool: Tool = { type: "function", function: { name: "add", parameters: { type: "object" } } };
const user: ChatMessage = { role: "user", content: "hi" };
const system: ChatMessage = { role: "system", content: "be brief" };
const called: ChatMessage[] = [
  user,
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "call_1", type: "function", function: { name: "add", arguments: '{"a": 1}' } }],
  },
  { role: "tool", tool_call_id: "call_1", content: "2" },
];
const render = (template: string | null, messages: ChatMessage[], tools: Tool[] = [], variables = {}) =>
  make(template).render({ messages, tools, variables, quote: (text) => text });

const errorOf = (fn: () => unknown): AppError => {
  try {
    fn();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
};

test("messages go through the template; parts of a content are joined; developer is system", () => {
  const parts: ChatMessage = {
    role: "user",
    content: [
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ],
  };
  expect(render(PLAIN, [{ role: "developer", content: "d" }, parts])).toBe("<system>d<user>ab<assistant>");
});

test.each([
  ["refuses it", NO_SYSTEM, "<s><user>be brief\n\nhi"],
  ["passes it over", DEAF, "<user>be brief\n\nhi"],
])("the system text opens the first message of the user when the template %s", (_how, template, expected) => {
  expect(render(template, [system, user])).toBe(expected);
});

test("a template's refusal is a 400 for the caller, with the template's message", () => {
  const template = "{% if messages|length > 1 %}{{ raise_exception('One at a time') }}{% endif %}x";
  const error = errorOf(() => render(template, [user, user]));
  expect([error.status, error.param]).toEqual([400, "/messages"]);
  expect(error.message).toContain("One at a time");
});

test("a template that cannot be read fails the chat, not the model", () => {
  const template = make("{% for %}");
  const error = errorOf(() => template.render({ messages: [user], tools: [], variables: {}, quote: (text) => text }));
  expect([error.status, error.message.includes("/completions")]).toEqual([400, true]);
});

test("further variables reach the template but cannot replace the fixed ones", () => {
  const template = "{{ mode }}{{ messages | length }}{% for i in range(2) %}{{ i }}{% endfor %}";
  expect(render(template, [user], [], { mode: "fast", messages: [], range: 1 })).toBe("fast101");
});

test("without a template the conversation is a transcript that ends at the next question", () => {
  const template = make(null);
  const text = template.render({
    messages: [system, user, { role: "assistant", content: "ho" }, user],
    tools: [],
    variables: {},
    quote: (t) => t,
  });
  expect(text).toBe("be brief\n\nUser: hi\nAssistant: ho\nUser: hi\nAssistant:");
  expect(template.stop).toEqual(["\nUser:"]);
});

test("a template of a model that reads images may take parts alone", () => {
  const PARTS = `{% for m in messages %}{{ m.role | capitalize }}{% if m.content[0].type == 'image' %}:{% else %}: {% endif %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% elif part.type == 'image' %}<image>{% endif %}{% endfor %}<end>{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}`;
  expect(render(PARTS, [system, user])).toBe("System: be brief<end>User: hi<end>Assistant:");
});

describe("tools", () => {
  test.each([
    ["hermes", `${PLAIN}{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}`],
    ["mistral", MISTRAL],
    ["llama", LLAMA],
  ])("the %s family is recognised by its template, which shows the tools itself", (name, template) => {
    expect(make(template).format.name as string).toBe(name);
    expect(render(template, [user], [tool])).toContain('"name": "add"');
    expect(render(template, [user], [tool])).not.toContain("can be called");
  });

  test("a template without tools gets them in the system message, and calls as text", () => {
    const text = render(PLAIN, [system, ...called], [tool]);
    expect(make(PLAIN).format.name).toBe("hermes");
    expect(text).toStartWith("<system>be brief\n\nThese functions can be called");
    expect(text).toContain('<assistant><tool_call>\n{"name":"add","arguments":{"a":1}}\n</tool_call>');
    expect(text).toContain("<user><tool_response>\n2\n</tool_response>");
  });

  test("arguments are an object if the template writes JSON, and text if it expects text", () => {
    expect(render(MISTRAL, called, [tool])).toContain('{"name": "add", "arguments": {"a": 1}}');
    expect(render(TEXT_ARGUMENTS, called, [tool])).toContain('add:{"a":1}');
  });

  test("ids have the spelling that the template accepts, the same in call and result", () => {
    const [, id] = /"arguments": {"a": 1}}(\w{9})\[TOOL_RESULTS\]\1/.exec(render(MISTRAL, called, [tool])) ?? [];
    expect(id).toBeDefined();
  });

  test("a turn with several calls becomes several turns if the template writes only one", () => {
    const one = `{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% endif %}{% endfor %}`;
    const strict = one.replace(
      "{% if m.tool_calls %}",
      "{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}",
    );
    const call = (id: string, a: number) => ({
      id,
      type: "function" as const,
      function: { name: "add", arguments: `{"a": ${a}}` },
    });
    const messages: ChatMessage[] = [
      user,
      { role: "assistant", content: "so", tool_calls: [call("call_1", 1), call("call_2", 2)] },
      { role: "tool", tool_call_id: "call_1", content: "x" },
      { role: "tool", tool_call_id: "call_2", content: "y" },
    ];
    for (const template of [one, strict])
      expect(render(template, messages, [tool])).toEndWith(
        '<user>hi<assistant>so{"name": "add", "arguments": {"a": 1}}<tool>x<assistant>{"name": "add", "arguments": {"a": 2}}<tool>y',
      );
  });

  test("a turn with calls has no text if the template writes its calls only then", () => {
    const template = `{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.content is none %}{{ m.tool_calls[0].function | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}`;
    expect(render(template, called, [tool])).toEndWith('hi{"name": "add", "arguments": {"a": 1}}2');
  });

  test("a template that writes no calls gets them as text, in the model's own format", () => {
    const template = `{% if tools %}Write <|tool_call|>. {{ tools | tojson }}{% endif %}${PLAIN}`;
    expect(render(template, called, [tool])).toEndWith(
      '<user>hi<assistant><|tool_call|>[{"name":"add","arguments":{"a":1}}]<|/tool_call|><tool>2<assistant>',
    );
  });

  test("a template that lists no tools but writes calls gets the tools in the system message", () => {
    const template = `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}<｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}`;
    const text = render(template, called, [tool]);
    expect(make(template).format.name).toBe("deepseek-3.1");
    expect(text).toContain("<name><｜tool▁sep｜>{<arguments>}");
    expect(text).toEndWith('<user>hi<assistant><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1}<tool>2');
  });

  test("ids count the calls where the model's ids do", () => {
    const template = `{% if tools %}<|tool_calls_section_begin|>{{ tools | tojson }}{% endif %}{% for m in messages %}{% for c in m.tool_calls or [] %}<|tool_call_begin|>{{ c.id }}{{ c.function.arguments | tojson }}{% endfor %}{{ m.tool_call_id }}{% endfor %}`;
    expect(
      render(
        template,
        [...called, ...called.slice(1)].map((m) => m),
        [tool],
      ),
    ).toContain("functions.add:0");
    expect(render(template, called, [tool])).toEndWith('functions.add:0{"a": 1}functions.add:0');
  });

  test("the template for tools is used when there are tools", () => {
    const template = make(PLAIN, LLAMA);
    const said = (tools: Tool[]) => template.render({ messages: [user], tools, variables: {}, quote: (t) => t });
    expect(said([])).toBe("<user>hi<assistant>");
    expect(said([tool])).toStartWith("<|python_tag|>");
  });
});

describe("a hostile template ends", () => {
  test.each([
    ["endless loops", "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"],
    ["a huge range", "{% for a in range(10000000000) %}{% endfor %}"],
    ["a range that does not move", "{% for a in range(0, 1, 0) %}{% endfor %}"],
    [
      "text that doubles",
      "{% set ns = namespace(t='aaaaaaaa') %}{% for a in range(60) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}",
    ],
    ["a macro that calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"],
  ])(
    "%s",
    (_name, template) => {
      expect(errorOf(() => render(template, [user])).status).toBe(400);
    },
    120_000,
  );
});
