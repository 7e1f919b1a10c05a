/** The prompt that a teacher sees in place of the student's: with a demonstration, an answer, or other instructions. */
import type { Row } from "../../../lib/rows/format.ts";
import type { Said } from "./encode.ts";

/** `{prompt}` and `{NAME}` of the template become the prompt and columns of the row. Of messages, the last one is replaced. */
export const shownPrompt =
  (template: string) =>
  (row: Row, prompt: Said): Said => {
    const last = typeof prompt === "string" ? prompt : prompt.at(-1)?.content;
    const text = template.replaceAll(/\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (_, name: string) => {
      const value = name === "prompt" ? (last ?? "") : row[name];
      if (value === undefined || value === null)
        throw new Error(`distillation_prompt names {${name}}, and this row has no ${name}`);
      return typeof value === "string" ? value : JSON.stringify(value);
    });
    if (typeof prompt === "string") return text;
    return [...prompt.slice(0, -1), { role: "user", content: text }];
  };
