/** The formats in which model families write a tool call. The text of the chat template decides which one applies. */
import { literal } from "../grammar/rules.ts";
import { until } from "../grammar/until.ts";
import { bareObjects, recipients } from "./bare_calls.ts";
import { type CallFormat, KEYS, listFormat, namedFormat, same, taggedFormat } from "./format.ts";
import { readGemma } from "./gemma.ts";
import { gemmaCalls, namedCall, objectCall, pythonCalls, several } from "./grammars.ts";
import { readHarmony } from "./harmony.ts";
import { mistralReader } from "./mistral.ts";
import { markedReader } from "./parser.ts";
import { readPython, spellPython } from "./python_calls.ts";
import { deepseekTags, GLM, HUNYUAN, MINICPM, MINIMAX, QWEN_CODER, SEED } from "./tags.ts";

export const HERMES: CallFormat & Required<Pick<CallFormat, "spell">> = {
  name: "hermes",
  opening: "",
  grammar(rules, callables, parallel) {
    const one = rules.define(`"<tool_call>\\n" ${objectCall(rules, callables, KEYS)} "\\n</tool_call>"`);
    return several(rules, one, { parallel, between: '"\\n"' });
  },
  stopAfterOne: ["</tool_call>"],
  reader: listFormat({ name: "hermes", markers: ["<tool_call>"], close: "</tool_call>" }).reader,
  spellId: same,
  json: true,
  spell: (calls) => calls.map((call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`).join("\n"),
};

const LLAMA: CallFormat = {
  name: "llama",
  opening: "",
  grammar: (rules, callables) => objectCall(rules, callables, { name: "name", arguments: "parameters" }),
  stopAfterOne: [],
  reader: bareObjects,
  spellId: same,
  json: true,
};

/** Mistral's templates accept only nine letters and digits. */
const nineLetters = (id: string) =>
  /^[A-Za-z0-9]{9}$/.test(id) ? id : Bun.hash(id).toString(36).padStart(9, "0").slice(-9);

const MISTRAL: CallFormat = {
  ...listFormat({ name: "mistral", markers: ["[TOOL_CALLS]"], close: "" }),
  reader: () => mistralReader,
  spellId: nineLetters,
};

/** `between`: the rule between the name and the arguments. */
const mistralNamed = (name: string, between: string): CallFormat => ({
  ...MISTRAL,
  name,
  grammar: (rules, callables, parallel) =>
    several(rules, namedCall(rules, callables, ['""', between, ""]), { parallel, between: '"[TOOL_CALLS]"' }),
});
const MISTRAL_ARGS = mistralNamed("mistral-args", '"[ARGS]"');
const MISTRAL_IDS = mistralNamed("mistral-ids", '"[CALL_ID]" [a-zA-Z0-9]{9} "[ARGS]"');

const DEEPSEEK_SECTION = ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"] as const;
const DEEPSEEK = namedFormat({
  name: "deepseek",
  section: DEEPSEEK_SECTION,
  call: {
    open: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    separators: ["```json"],
    name: /^([\w.-]+)\s*$/,
    close: ["```", "<｜tool▁call▁end｜>"],
  },
  rule: ['"<｜tool▁call▁begin｜>function<｜tool▁sep｜>"', '"\\n```json\\n"', '"\\n```<｜tool▁call▁end｜>"'],
  between: '"\\n"',
  example:
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜><name>\n```json\n{<arguments>}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
});
const DEEPSEEK_31 = namedFormat({
  name: "deepseek-3.1",
  section: DEEPSEEK_SECTION,
  call: {
    open: "<｜tool▁call▁begin｜>",
    separators: ["<｜tool▁sep｜>"],
    name: /^\s*([\w.-]+)\s*$/,
    close: ["<｜tool▁call▁end｜>"],
  },
  rule: ['"<｜tool▁call▁begin｜>"', '"<｜tool▁sep｜>"', '"<｜tool▁call▁end｜>"'],
  example:
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜><name><｜tool▁sep｜>{<arguments>}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
});

const KIMI: CallFormat = {
  ...namedFormat({
    name: "kimi",
    section: ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
    call: {
      open: "<|tool_call_begin|>",
      separators: ["<|tool_call_argument_begin|>"],
      name: /^\s*(?:functions\.)?([\w.-]+?)(?::\d+)?\s*$/,
      close: ["<|tool_call_end|>"],
    },
    rule: ['"<|tool_call_begin|>functions."', '":" [0-9]{1,3} "<|tool_call_argument_begin|>"', '"<|tool_call_end|>"'],
  }),
  spellId: (_id, name, index) => `functions.${name}:${index}`,
};

const SOLAR = namedFormat({
  name: "solar",
  section: ["<|tool_calls|>", ""],
  call: {
    open: "<|tool_call:begin|>",
    separators: ["<|tool_call:args|>"],
    name: /<\|tool_call:name\|>([\w.-]+)$/,
    close: ["<|tool_call:end|>"],
  },
  rule: ['"<|tool_call:begin|>" [a-zA-Z0-9]{9} "<|tool_call:name|>"', '"<|tool_call:args|>"', '"<|tool_call:end|>"'],
});

/** Functionary 3.1. */
const FUNCTIONARY = namedFormat({
  name: "functionary",
  section: ["<function=", ""],
  call: { open: "", separators: [">"], name: /^([\w.-]+)$/, close: ["</function>"] },
  rule: ['""', '">"', '"</function>"'],
  between: '"<function="',
});

/** Functionary 3.2. The prompt ends with the marker of the first recipient. */
const RECIPIENTS: CallFormat = {
  name: "functionary-3.2",
  opening: "",
  grammar: (rules, callables, parallel) =>
    several(rules, namedCall(rules, callables, ['""', '"\\n"', ""]), { parallel, between: '">>>"' }),
  stopAfterOne: [],
  reader: recipients,
  always: true,
  answer: (_rules, rule) => `"all\\n" ${rule}`,
  spellId: same,
  json: true,
};

const GEMMA: CallFormat = {
  name: "gemma",
  opening: "",
  grammar: gemmaCalls,
  stopAfterOne: [],
  reader: () => markedReader(["<|tool_call>"], readGemma),
  spellId: same,
  json: false,
};

const LFM: CallFormat = {
  name: "lfm",
  opening: "<|tool_call_start|>",
  grammar: (rules, callables, parallel) => `"[" ${pythonCalls(rules, callables, parallel)} "]<|tool_call_end|>"`,
  stopAfterOne: [],
  reader: () => markedReader(["<|tool_call_start|>"], readPython),
  spellId: same,
  json: false,
  spell: (calls) => `<|tool_call_start|>[${calls.map(spellPython).join(", ")}]<|tool_call_end|>`,
};

const ANALYSIS = "<|channel|>analysis<|message|>";
const HARMONY: CallFormat = {
  name: "harmony",
  opening: "",
  grammar(rules, callables) {
    const thoughts = rules.define(`${literal(ANALYSIS)} ${until(rules, "<|end|>")} "<|end|><|start|>assistant"`);
    const between = '" <|constrain|>json<|message|>"';
    return `${thoughts}? ${namedCall(rules, callables, ['"<|channel|>commentary to=functions."', between, ""])}`;
  },
  stopAfterOne: [],
  reader: () => readHarmony,
  always: true,
  answer(rules, rule) {
    const thoughts = rules.define(`${literal(ANALYSIS)} ${until(rules, "<|end|>")} "<|end|><|start|>assistant"`);
    return `${thoughts}? "<|channel|>final<|message|>" ${rule}`;
  },
  spellId: same,
  json: true,
};

const COMMAND_KEYS = { name: "tool_name", arguments: "parameters" };

/** Each row: texts that a template has all of, texts that it has none of, and its format. The first match applies. */
const FAMILIES: readonly (readonly [has: readonly string[], lacks: readonly string[], format: CallFormat])[] = [
  [["[TOOL_CALLS]", "[CALL_ID]"], [], MISTRAL_IDS],
  [["[TOOL_CALLS]", "[ARGS]"], [], MISTRAL_ARGS],
  [["[TOOL_CALLS]"], [], MISTRAL],
  [["<|channel|>", "<|message|>"], [], HARMONY],
  [[">>>all", "recipient}"], [], RECIPIENTS],
  [["<|tool_calls_section_begin|>", "<|tool_call_begin|>"], [], KIMI],
  [["DSML", "function_calls"], [], taggedFormat("deepseek-3.2", deepseekTags("function_calls"))],
  [["DSML", "tool_calls"], [], taggedFormat("deepseek-4", deepseekTags("tool_calls"))],
  [["<｜tool▁sep｜>", "```json"], [], DEEPSEEK],
  [["<｜tool▁sep｜>"], [], DEEPSEEK_31],
  [
    ["<|START_ACTION|>"],
    [],
    listFormat({
      name: "command",
      markers: ["<|START_ACTION|>"],
      close: "<|END_ACTION|>",
      keys: { ...COMMAND_KEYS, before: '"tool_call_id": "0", ' },
    }),
  ],
  [
    ["Action:", "tool_name", "```json"],
    [],
    listFormat({
      name: "command-r",
      markers: ["Action: ```json", "Action:\n```json", "Action:```json"],
      close: "```",
      keys: COMMAND_KEYS,
    }),
  ],
  [["<|tool_call>call:"], [], GEMMA],
  [["<|tool_list_start|>"], [], LFM],
  [["List of tools: ["], ["<tool_call>", "<|python_tag|>"], LFM],
  [["toolsep_token", "HYTK = ':opensource'"], [], taggedFormat("hunyuan", HUNYUAN)],
  [['<function name="', '<param name="'], [], taggedFormat("minicpm", MINICPM)],
  [["<minimax:tool_call>", "<invoke name="], [], taggedFormat("minimax", MINIMAX)],
  [["seed:tool_call", "<function="], [], taggedFormat("seed", SEED)],
  [["<tool_call>", "<function=", "<parameter="], [], taggedFormat("qwen-coder", QWEN_CODER)],
  [["<tool_call>", "<arg_key>"], [], taggedFormat("glm", GLM)],
  [
    ["<|tools_prefix|>"],
    [],
    listFormat({ name: "apertus", markers: ["<|tools_prefix|>"], close: "<|tools_suffix|>", how: { keyed: true } }),
  ],
  [["<|tool_call:begin|>"], [], SOLAR],
  [["<TOOLCALL>"], [], listFormat({ name: "nemotron", markers: ["<TOOLCALL>"], close: "</TOOLCALL>" })],
  [["functools["], [], listFormat({ name: "firefunction", markers: ["functools"], close: "" })],
  [["<|function_call|>"], [], listFormat({ name: "gigachat", markers: ["<|function_call|>"], close: "" })],
  [["<|tool_call|>"], [], listFormat({ name: "granite", markers: ["<|tool_call|>"], close: "<|/tool_call|>" })],
  [
    ["<tool_calls>"],
    ["]<]minimax[>["],
    listFormat({ name: "tool-calls", markers: ["<tool_calls>"], close: "</tool_calls>" }),
  ],
  [["<tool_call>"], ["<function=", "]<]minimax[>["], HERMES],
  [["<function=", "</function>"], ["<parameter="], FUNCTIONARY],
  [["<|python_tag|>"], [], LLAMA],
];

/** Returns undefined for an unknown template; the prompt then asks for calls in the Hermes format. */
export function formatOf(template: string): CallFormat | undefined {
  const family = FAMILIES.find(
    ([has, lacks]) => has.every((text) => template.includes(text)) && !lacks.some((text) => template.includes(text)),
  );
  if (family) return family[2];
  return /\{\\?"name\\?": function name, \\?"parameters\\?"/.test(template) ? LLAMA : undefined;
}
