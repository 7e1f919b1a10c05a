/** Chat templates that differ in what matters for a conversation: each is written for its tests, in the manner of a family. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CHATML } from "../models.ts";

export type TemplateCase = { source: string | null; end: string; bos: string; controls: readonly string[] };

const IM = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"];
const HERMES_TOOLS = `{%- if tools %}<|im_start|>system\n<tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools> <tool_call>{"name": "x", "arguments": {}}</tool_call><|im_end|>\n{% endif %}`;
const HERMES_CALLS = `{% for c in m.tool_calls %}\n<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}`;
const OPEN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const hermes = (answer: string, open = OPEN) =>
  `${HERMES_TOOLS}{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ m.content }}\n</tool_response><|im_end|>\n{% elif m.role == 'assistant' %}<|im_start|>assistant\n${answer}{% if m.tool_calls %}${HERMES_CALLS}{% endif %}<|im_end|>\n{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}${open}`;

/** Thoughts of earlier answers are left out, and those of the last one are kept. */
const STRIPPED = hermes(
  "{% set text = m.content.split('</think>')[-1] if '</think>' in m.content else m.content %}{% if loop.last and m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ text | trim }}",
);
const ONE_CALL = `{% for m in messages %}{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif %}{% endfor %}${hermes("{{ m.content or '' }}")}`;
const LLAMA = `{{ bos_token }}{% if tools %}<|start_header_id|>system<|end_header_id|>\n\n<|python_tag|>{{ tools | tojson }}<|eot_id|>{% endif %}{% for m in messages %}{% if m.role == 'tool' %}<|start_header_id|>ipython<|end_header_id|>\n\n{{ m.content | tojson }}<|eot_id|>{% elif m.tool_calls %}<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}<|eot_id|>{% else %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}`;
const MISTRAL = `{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}{% for m in messages %}{% if m.role == 'tool' %}[TOOL_RESULTS]{"content": {{ m.content | tojson }}, "call_id": "{{ m.tool_call_id }}"}[/TOOL_RESULTS]{% elif m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}{% if not loop.last %}, {% endif %}{% endfor %}]{{ eos_token }}{% elif m.role == 'assistant' %} {{ m.content | trim }}{{ eos_token }}{% elif m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]{% else %}[INST] {{ m.content }}[/INST]{% endif %}{% endfor %}`;
const GEMMA = `{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}`;
const DEEPSEEK = `{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}<｜User｜>{{ m.content }}{% elif m.role == 'assistant' %}<｜Assistant｜>{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %}`;
/** System texts of any place come first: nothing goes on from an answer that one of them follows. */
const HOISTED = `{% for m in messages if m.role == 'system' %}<|im_start|>system\n{{ m.content }}<|im_end|>\n{% endfor %}{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}${OPEN}`;
const ENDLESS = `{% for m in messages %}### {{ m.role }}\n{{ m.content }}\n\n{% endfor %}{% if add_generation_prompt %}### assistant\n{% endif %}`;
const USERS_END = `{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}{% else %}[{{ m.role }}]{{ m.content }}</s>{% endif %}{% endfor %}`;

export const TEMPLATES: Record<string, TemplateCase> = {
  "verk-tiny": {
    source: readFileSync(join(import.meta.dir, "../../models/verk-tiny/template.jinja"), "utf8"),
    end: "<|im_end|>",
    bos: "",
    controls: IM,
  },
  chatml: { source: CHATML, end: "<|im_end|>", bos: "", controls: IM },
  hermes: { source: hermes("{{ m.content or '' }}"), end: "<|im_end|>", bos: "", controls: IM },
  "hermes that opens a thought": {
    source: hermes(
      "{{ m.content or '' }}",
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
    ),
    end: "<|im_end|>",
    bos: "",
    controls: IM,
  },
  "thoughts left out": { source: STRIPPED, end: "<|im_end|>", bos: "", controls: IM },
  "one call in a turn": { source: ONE_CALL, end: "<|im_end|>", bos: "", controls: IM },
  llama: {
    source: LLAMA,
    end: "<|eot_id|>",
    bos: "<|begin_of_text|>",
    controls: ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"],
  },
  mistral: {
    source: MISTRAL,
    end: "</s>",
    bos: "<s>",
    controls: ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
  },
  gemma: {
    source: GEMMA,
    end: "<end_of_turn>",
    bos: "<bos>",
    controls: ["<bos>", "<start_of_turn>", "<end_of_turn>"],
  },
  deepseek: {
    source: DEEPSEEK,
    end: "<｜end▁of▁sentence｜>",
    bos: "<｜begin▁of▁sentence｜>",
    controls: ["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>"],
  },
  "system texts first": { source: HOISTED, end: "<|im_end|>", bos: "", controls: IM },
  "no end token": { source: ENDLESS, end: "</s>", bos: "", controls: ["</s>"] },
  "an end token behind users alone": { source: USERS_END, end: "</s>", bos: "", controls: ["</s>"] },
  "no template": { source: null, end: "</s>", bos: "", controls: ["</s>"] },
};
