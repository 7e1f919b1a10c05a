/** Texts of the formats of LFM2, Hunyuan 3 and MiniCPM5, as in call_cases.ts. */
type Call = [name: string, args: unknown];
type Row = [what: string, text: string, content: string, calls: Call[]];

const ADD: Call = ["add", { a: 1 }];
const SAY: Call = ["say", { text: 'a "b"\n<c>', to: null }];
const NOW: Call = ["now", {}];

/** The tags of Hunyuan. The text <c> is no tag. */
const tagged = (text: string) => text.replaceAll(/(<\/?(?:tool|arg)_[a-z]+)>/g, "$1:opensource>");

export const FURTHER: Record<string, Row[]> = {
  lfm: [
    ["calls", `<|tool_call_start|>[add(a=1), say(text='a "b"\n<c>', to=None)]<|tool_call_end|>`, "", [ADD, SAY]],
    ["no arguments", "<|tool_call_start|>[now()]<|tool_call_end|>", "", [NOW]],
    ["text around it", "x <|tool_call_start|>[now()]<|tool_call_end|> y", "x  y", [NOW]],
    [
      "values of Python",
      `<|tool_call_start|>[f(a=[True, 'x', {'k': None}], b="it's, \\"so\\"", c='it's', d=-1.5)]<|tool_call_end|>`,
      "",
      [["f", { a: [true, "x", { k: null }], b: `it's, "so"`, c: "it's", d: -1.5 }]],
    ],
    ["no call", "<|tool_call_start|>hello", "<|tool_call_start|>hello", []],
  ],
  hunyuan: [
    [
      "calls",
      tagged(
        `<tool_calls>\n<tool_call>add<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n<tool_call>say<tool_sep>\n<arg_key>text</arg_key>\n<arg_value>a "b"\n<c></arg_value>\n<arg_key>to</arg_key>\n<arg_value>null</arg_value>\n</tool_call>\n</tool_calls>`,
      ),
      "",
      [ADD, SAY],
    ],
    ["no arguments", tagged("<tool_calls>\n<tool_call>now<tool_sep>\n</tool_call>\n</tool_calls>"), "", [NOW]],
  ],
  minicpm: [
    [
      "calls",
      '<function name="add"><param name="a">1</param></function><function name="say"><param name="text"><![CDATA[a "b"\n<c>]]></param><param name="to">null</param></function>',
      "",
      [ADD, SAY],
    ],
    ["a text before it", 'So: <function name="now"></function>', "So: ", [NOW]],
  ],
};
