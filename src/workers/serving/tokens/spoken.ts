/**
 * Control tokens that a parser must see: without them a tool call or a thought would look like an answer. A grammar may
 * use them too.
 */
export const SPOKEN: ReadonlySet<string> = new Set([
  ...["<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>", "<TOOLCALL>", "</TOOLCALL>"],
  ...["<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", "<mm:think>", "</mm:think>"],
  ...["<seed:tool_call>", "</seed:tool_call>", "<minimax:tool_call>", "</minimax:tool_call>"],
  ...["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
  ...["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
  ...["<|python_tag|>", "<|tool_call|>", "<|/tool_call|>", "<|function_call|>"],
  ...[
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
  ],
  ...["<|tool▁calls▁begin|>", "<|tool▁calls▁end|>"],
  ...["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
  ...["<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"],
  ...["<|START_ACTION|>", "<|END_ACTION|>", "<|START_THINKING|>", "<|END_THINKING|>"],
  ...["<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>"],
  ...["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>"],
  ...["<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>"],
  ...["<|tool_call_start|>", "<|tool_call_end|>"],
  ...["<think:opensource>", "</think:opensource>", "<tool_calls:opensource>", "</tool_calls:opensource>"],
  ...["<tool_call:opensource>", "</tool_call:opensource>", "<tool_sep:opensource>"],
  ...["<arg_key:opensource>", "</arg_key:opensource>", "<arg_value:opensource>", "</arg_value:opensource>"],
  ...["<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"],
]);
