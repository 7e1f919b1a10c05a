/** The tags of each family that writes calls as tags. */
import type { Tags } from "./tagged_calls.ts";

const PARAMETER = ["<parameter=", ">", "", "</parameter>"] as const;

export const QWEN_CODER: Tags = {
  section: ["<tool_call>", "</tool_call>"],
  call: ["<function=", ">", "</function>"],
  argument: PARAMETER,
  lines: true,
  many: "section",
};

export const SEED: Tags = { ...QWEN_CODER, section: ["<seed:tool_call>", "</seed:tool_call>"], lines: false };

export const GLM: Tags = {
  section: ["", ""],
  call: ["<tool_call>", "", "</tool_call>"],
  argument: ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
  lines: false,
  many: "call",
};

/** Hunyuan 3 ends each of its tags with the same word. */
export const HUNYUAN: Tags = {
  section: ["<tool_calls:opensource>", "</tool_calls:opensource>"],
  call: ["<tool_call:opensource>", "<tool_sep:opensource>", "</tool_call:opensource>"],
  argument: ["<arg_key:opensource>", "</arg_key:opensource>", "<arg_value:opensource>", "</arg_value:opensource>"],
  lines: false,
  many: "call",
};

export const MINICPM: Tags = {
  section: ["", ""],
  call: ['<function name="', '">', "</function>"],
  argument: ['<param name="', '">', "", "</param>"],
  lines: false,
  many: "call",
  wrapped: true,
};

export const MINIMAX: Tags = {
  section: ["<minimax:tool_call>", "</minimax:tool_call>"],
  call: ['<invoke name="', '">', "</invoke>"],
  argument: ['<parameter name="', '">', "", "</parameter>"],
  lines: false,
  many: "call",
};

/** `word` differs between the versions 3.2 and 4. */
export const deepseekTags = (word: string): Tags => ({
  section: [`<｜DSML｜${word}>`, `</｜DSML｜${word}>`],
  call: ['<｜DSML｜invoke name="', '">', "</｜DSML｜invoke>"],
  argument: ['<｜DSML｜parameter name="', '"', " string=", "</｜DSML｜parameter>"],
  lines: false,
  many: "call",
});
