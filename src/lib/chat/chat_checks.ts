/** Rules between the fields of a chat request. */
import { constraintsOf } from "./constraints.ts";
import type { LegacyChoice, PromptMessage, ResponseFormat, Tool } from "./messages.ts";
import type { Refuse } from "./sampling.ts";
import { type SentChoice, type SentTool, toolName } from "./tools.ts";

type Tools = {
  tools: readonly SentTool[];
  tool_choice: SentChoice;
  functions?: readonly Tool["function"][] | null | undefined;
  function_call?: LegacyChoice | null | undefined;
};

export function checkTools({ tools, tool_choice: choice, functions, function_call }: Tools, refuse: Refuse) {
  if (functions?.length && tools.length > 0) refuse(["functions"], "cannot be combined with tools. Use tools alone");
  if (typeof function_call === "object" && function_call && !has(functions ?? [], function_call.name))
    refuse(["function_call", "name"], `${function_call.name} is not among the functions`);
  const names = tools.map(toolName);
  if (choice === "required" && tools.length === 0)
    refuse(["tool_choice"], "`required` needs at least one tool. Add one to tools");
  if (typeof choice === "object") checkChoice(choice, names, refuse);
  const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
  if (twice >= 0)
    refuse(
      ["tools", String(twice), tools[twice]?.type ?? "function", "name"],
      "another tool has the same name. Rename one of them",
    );
}

function checkChoice(choice: Exclude<SentChoice, string>, names: readonly string[], refuse: Refuse) {
  const isUnknown = (name: string) => !names.includes(name);
  if (choice.type === "allowed_tools") {
    const allowed = choice.allowed_tools.tools.map(toolName);
    const at = allowed.findIndex(isUnknown);
    if (at >= 0) refuse(["tool_choice", "allowed_tools", "tools", String(at)], `${allowed[at]} is not among the tools`);
    return;
  }
  const name = toolName(choice);
  if (isUnknown(name)) refuse(["tool_choice", choice.type, "name"], `${name} is not among the tools`);
}

const has = (functions: readonly { name: string }[], name: string) => functions.some((each) => each.name === name);

type Constraints = Tools & Parameters<typeof constraintsOf>[0] & { response_format: ResponseFormat };

/** An answer obeys one grammar. */
export function checkConstraints(request: Constraints, refuse: Refuse) {
  const path = constraintsOf(request)[0]?.at.slice(1).split("/");
  if (path === undefined) return;
  if (request.response_format.type !== "text")
    refuse(path, "cannot be combined with response_format. Remove one of them");
  if (request.tools.length > 0 || request.functions?.length)
    refuse(path, "cannot be combined with tools. Remove one of them");
}

type End = {
  messages: readonly PromptMessage[];
  continue_final_message?: boolean | null | undefined;
  add_generation_prompt?: boolean | null | undefined;
};

export function checkEnd(request: End, refuse: Refuse) {
  const { messages, continue_final_message: continues, add_generation_prompt: opens } = request;
  if (continues && opens)
    refuse(["continue_final_message"], "cannot be combined with add_generation_prompt: true. Remove one of them");
  const last = messages.length - 1;
  if (messages[last]?.role === "assistant" && messages[last - 1]?.role === "assistant")
    refuse(
      ["messages", String(last)],
      "is the second message of the assistant in a row. Join both, or add a user turn",
    );
  if (continues && messages[last]?.role !== "assistant")
    refuse(["continue_final_message"], "needs a last message of the assistant");
}

/** True: the answer goes on where the last message ends. */
export const continuesLast = ({ messages, continue_final_message: continues, add_generation_prompt: opens }: End) => {
  const last = messages.at(-1);
  if (last?.role !== "assistant" || last.tool_calls?.length) return false;
  return continues ?? opens !== true;
};
