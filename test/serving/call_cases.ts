import type { CallFormat } from "../../src/workers/serving/calls/format.ts";
import { formatOf, HERMES } from "../../src/workers/serving/calls/formats.ts";
import { FURTHER } from "./further_call_cases.ts";

/** Texts of each format: what a text is, the text, and the content, calls and thoughts that it holds. */
export type Row = [
  what: string,
  text: string,
  content: string,
  calls: [name: string, args: unknown][],
  thoughts?: string,
];

const of = (...parts: string[]) => formatOf(parts.join(" ")) as CallFormat;
export const FORMATS: Record<string, CallFormat> = {
  hermes: HERMES,
  llama: of("<|python_tag|>"),
  mistral: of("[TOOL_CALLS]"),
  "mistral-args": of("[TOOL_CALLS] [ARGS]"),
  "mistral-ids": of("[TOOL_CALLS] [CALL_ID] [ARGS]"),
  harmony: of("<|channel|> <|message|>"),
  "functionary-3.2": of(">>>all >>>$", "{recipient}"),
  functionary: of("<function= </function>"),
  kimi: of("<|tool_calls_section_begin|> <|tool_call_begin|>"),
  deepseek: of("<｜tool▁sep｜> ```json"),
  "deepseek-3.1": of("<｜tool▁sep｜>"),
  "deepseek-3.2": of("DSML function_calls"),
  "deepseek-4": of("DSML tool_calls"),
  command: of("<|START_ACTION|>"),
  "command-r": of("Action: tool_name ```json"),
  gemma: of("'<|tool_call>call:'"),
  minimax: of("<minimax:tool_call> <invoke name="),
  seed: of("<seed:tool_call> <function="),
  "qwen-coder": of("<tool_call> <function= <parameter="),
  glm: of("<tool_call> <arg_key>"),
  lfm: of("<|tool_list_start|>"),
  hunyuan: of("{% set HYTK = ':opensource' %} toolsep_token"),
  minicpm: of('<function name="x"> <param name="y">'),
  apertus: of("<|tools_prefix|>"),
  solar: of("<|tool_call:begin|>"),
  nemotron: of("<TOOLCALL>"),
  firefunction: of("functools["),
  gigachat: of("<|function_call|>"),
  granite: of("<|tool_call|>"),
  "tool-calls": of("<tool_calls>"),
};

const ADD: [string, unknown] = ["add", { a: 1 }];
const SAY: [string, unknown] = ["say", { text: 'a "b"\n<c>', to: null }];
const NOW: [string, unknown] = ["now", {}];
const SAID = '{"text": "a \\"b\\"\\n<c>", "to": null}';
const hermes = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
const llama = '{"name": "add", "parameters": {"a": 1}}';
const list = `[{"name": "add", "arguments": {"a": 1}}, {"name": "say", "arguments": ${SAID}, "id": "x"}]`;
const coder = (open: string, close: string, line = "\n") =>
  `${open}\n<function=add>\n<parameter=a>${line}1${line}</parameter>\n</function>\n${close}\n${open}\n<function=say>\n<parameter=text>${line}a "b"\n<c>${line}</parameter>\n<parameter=to>${line}null${line}</parameter>\n</function>\n${close}`;
const dsml = (word: string) =>
  `<｜DSML｜${word}>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="say">\n<｜DSML｜parameter name="text" string="true">a "b"\n<c></｜DSML｜parameter>\n<｜DSML｜parameter name="to" string="false">null</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜${word}>`;

export const CASES: Record<string, Row[]> = {
  ...FURTHER,
  hermes: [
    ["no call", "just <text> and a <tool", "just <text> and a <tool", []],
    ["text before it", `Well: ${hermes}`, "Well: ", [ADD]],
    ["two calls on two lines", `${hermes}\n${hermes}\n`, "", [ADD, ADD]],
    ["text behind it", `${hermes}\nDone.`, "\nDone.", [ADD]],
    ["a call without an end tag", hermes.replace("</tool_call>", ""), "", [ADD]],
    ["arguments as text", '<tool_call>{"name":"add","arguments":"{\\"a\\":1}"}</tool_call>', "", [ADD]],
    ["parameters instead of arguments", '<tool_call>{"name":"add","parameters":{"a":1}}</tool_call>', "", [ADD]],
    ["the name behind the arguments", '<tool_call>{"arguments":{"a":1},"name":"add"}</tool_call>', "", [ADD]],
    ["a list", `<tool_call>${list}</tool_call>`, "", [ADD, SAY]],
    ["no name", "<tool_call>{}</tool_call>", "<tool_call>{}</tool_call>", []],
    [
      "arguments that are no object",
      '<tool_call>{"name":"f","arguments":[1]}</tool_call>',
      '<tool_call>{"name":"f","arguments":[1]}</tool_call>',
      [],
    ],
    [
      "a bad call between good ones",
      `${hermes}<tool_call>x</tool_call>${hermes}`,
      "<tool_call>x</tool_call>",
      [ADD, ADD],
    ],
    ["a call cut short", '<tool_call>{"name": "add", "argu', '<tool_call>{"name": "add", "argu', []],
  ],
  llama: [
    ["text", "No {call} here", "No {call} here", []],
    ["a call", llama, "", [ADD]],
    ["behind its tag", `<|python_tag|>${llama}`, "", [ADD]],
    ["several", `${llama}; ${llama}`, "", [ADD, ADD]],
    ["with its type first", `{"type": "function", ${llama.slice(1)}`, "", [ADD]],
    ["a function that was not offered", '{"name": "rm", "parameters": {}}', '{"name": "rm", "parameters": {}}', []],
    ["another object", '{"city": "Bern", "name": "add"}', '{"city": "Bern", "name": "add"}', []],
    ["a call with text behind it", `${llama} done`, "done", [ADD]],
    ["a call of a built-in tool", '<|python_tag|>say.call(text="x", to="y")', "", [["say", { text: "x", to: "y" }]]],
    ["code", "<|python_tag|>print(1)\n", "", [["python", { code: "print(1)\n" }]]],
    ["text before the tag", `Hm. <|python_tag|>${llama}`, "Hm. ", [ADD]],
  ],
  mistral: [
    ["text", "[1] is a footnote", "[1] is a footnote", []],
    ["calls behind the marker", `[TOOL_CALLS]${list}`, "", [ADD, SAY]],
    ["a call whose marker is invisible", list, "", [ADD, SAY]],
    ["text before the marker", `Sure. [TOOL_CALLS] ${list}`, "Sure. ", [ADD, SAY]],
    ["a list of other things", '[{"name": 5}]', '[{"name": 5}]', []],
    ["nothing", "", "", []],
  ],
  "mistral-args": [
    ["a call", 'Hm.[TOOL_CALLS]add[ARGS]{"a": 1}', "Hm.", [ADD]],
    ["two", `[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]say[ARGS]${SAID}`, "", [ADD, SAY]],
    ["without the separator", 'x[TOOL_CALLS]add{"a": 1}', "x", [ADD]],
    ["no arguments", "[TOOL_CALLS]add[ARGS]nothing", "[TOOL_CALLS]add[ARGS]nothing", []],
  ],
  "mistral-ids": [["a call with an id", '[TOOL_CALLS]add[CALL_ID]abcdefgh1[ARGS]{"a": 1}', "", [ADD]]],
  harmony: [
    [
      "thoughts and an answer",
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes <b>.<|return|>",
      "Yes <b>.",
      [],
      "Hm.",
    ],
    [
      "thoughts and a call",
      '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1}<|call|>',
      "",
      [ADD],
      "Hm.",
    ],
    ["the recipient first", ' to=functions.add<|channel|>commentary json<|message|>{"a": 1}', "", [ADD]],
    [
      "a preamble",
      `<|channel|>commentary<|message|>I add.<|end|><|start|>assistant<|channel|>commentary to=functions.say<|message|>${SAID}`,
      "I add.",
      [SAY],
    ],
    ["no header", "plain text", "plain text", []],
    ["a header without a message", "<|channel|>final", "<|channel|>final", []],
    [
      "a call without arguments",
      "<|channel|>commentary to=functions.add<|message|>oops<|call|>",
      "<|channel|>commentary to=functions.add<|message|>oops",
      [],
    ],
  ],
  "functionary-3.2": [
    ["text", "all\nHello", "Hello", []],
    ["text and calls", `all\nHm\n>>>add\n{"a": 1}\n>>>say\n${SAID}`, "Hm\n", [ADD, SAY]],
    ["no recipient", "Hello", "Hello", []],
    ["an unknown recipient", "nobody\n{}", "nobody\n{}", []],
  ],
  functionary: [
    ["calls", `<function=add>{"a": 1}</function><function=say>${SAID}</function>`, "", [ADD, SAY]],
    ["text in brackets", "a <function=", "a <function=", []],
  ],
  kimi: [
    [
      "calls",
      `Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_call_begin|>functions.say:1<|tool_call_argument_begin|>${SAID}<|tool_call_end|><|tool_calls_section_end|>`,
      "Hm.",
      [ADD, SAY],
    ],
    [
      "an empty section",
      "<|tool_calls_section_begin|><|tool_calls_section_end|>",
      "<|tool_calls_section_begin|><|tool_calls_section_end|>",
      [],
    ],
  ],
  deepseek: [
    [
      "calls",
      `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n\`\`\`json\n{"a": 1}\n\`\`\`<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>say\n\`\`\`json\n${SAID}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
      "",
      [ADD, SAY],
    ],
  ],
  "deepseek-3.1": [
    [
      "calls",
      `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>say<｜tool▁sep｜>${SAID}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
      "",
      [ADD, SAY],
    ],
    [
      "a broken second call",
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>?',
      "<｜tool▁call▁begin｜>?",
      [ADD],
    ],
  ],
  "deepseek-3.2": [["calls", `Hm.\n\n${dsml("function_calls")}`, "Hm.\n\n", [ADD, SAY]]],
  "deepseek-4": [["calls", dsml("tool_calls"), "", [ADD, SAY]]],
  command: [
    [
      "calls",
      `<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "add", "parameters": {"a": 1}},\n    {"tool_call_id": "1", "tool_name": "say", "parameters": ${SAID}}\n]<|END_ACTION|>`,
      "",
      [ADD, SAY],
    ],
  ],
  "command-r": [
    [
      "calls",
      'Action: ```json\n[\n    {\n        "tool_name": "add",\n        "parameters": {"a": 1}\n    }\n]```',
      "",
      [ADD],
    ],
    ["text", "Action: wait", "Action: wait", []],
  ],
  gemma: [
    [
      "calls",
      '<|tool_call>call:add{a:1}<tool_call|><|tool_call>call:say{text:<|"|>a "b"\n<c><|"|>,to:null}<tool_call|>',
      "",
      [ADD, SAY],
    ],
    [
      "a nested value",
      '<|tool_call>call:f{x:{y:[1,<|"|>z<|"|>,"q:r"]}}<tool_call|>',
      "",
      [["f", { x: { y: [1, "z", "q:r"] } }]],
    ],
    ["no call", "<|tool_call>call me", "<|tool_call>call me", []],
  ],
  minimax: [
    [
      "calls",
      `<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>\n<invoke name="say">\n<parameter name="text">a "b"\n<c></parameter>\n<parameter name="to">null</parameter>\n</invoke>\n</minimax:tool_call>`,
      "",
      [ADD, SAY],
    ],
  ],
  seed: [["calls", coder("<seed:tool_call>", "</seed:tool_call>", ""), "", [ADD, SAY]]],
  "qwen-coder": [
    ["calls", coder("<tool_call>", "</tool_call>"), "", [ADD, SAY]],
    ["no arguments", "<tool_call>\n<function=now>\n</function>\n</tool_call>", "", [NOW]],
    ["without the outer tag", "x <function=add>\n<parameter=a>\n1\n</parameter>\n</function>", "x ", [ADD]],
    [
      "a text that looks like a number",
      "<tool_call><function=say><parameter=text>\n12\n</parameter></function></tool_call>",
      "",
      [["say", { text: "12" }]],
    ],
    [
      "a value that is no JSON",
      "<tool_call><function=say><parameter=to>\nhe said\n</parameter></function></tool_call>",
      "",
      [["say", { to: "he said" }]],
    ],
    ["no function", "<tool_call>\nhello\n</tool_call>", "<tool_call>\nhello\n</tool_call>", []],
    ["a call cut short", "<tool_call>\n<function=ad", "<tool_call>\n<function=ad", []],
  ],
  glm: [
    [
      "calls",
      `<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n<tool_call>say<arg_key>text</arg_key><arg_value>a "b"\n<c></arg_value><arg_key>to</arg_key><arg_value>null</arg_value></tool_call>`,
      "",
      [ADD, SAY],
    ],
    ["no arguments", "<tool_call>now</tool_call>", "", [NOW]],
    ["no name", "<tool_call></tool_call>", "<tool_call></tool_call>", []],
  ],
  apertus: [["calls", `<|tools_prefix|>[{"add": {"a": 1}}, {"say": ${SAID}}]<|tools_suffix|>`, "", [ADD, SAY]]],
  solar: [
    [
      "a call",
      '<|tool_calls|><|tool_call:begin|>abcdefgh1<|tool_call:name|>add<|tool_call:args|>{"a": 1}<|tool_call:end|>',
      "",
      [ADD],
    ],
  ],
  nemotron: [["calls", `<TOOLCALL>${list}</TOOLCALL>`, "", [ADD, SAY]]],
  firefunction: [["calls", ` functools${list}`, " ", [ADD, SAY]]],
  gigachat: [["a call", `<|function_call|>{"name": "add", "arguments": {"a": 1}}`, "", [ADD]]],
  granite: [["calls", `<|tool_call|>${list}`, "", [ADD, SAY]]],
  "tool-calls": [["calls", `<tool_calls>\n${list}\n</tool_calls>`, "", [ADD, SAY]]],
};
