/** Explains the loss of a replica to the owner of its deployment: no path of this machine, no line of a stack. */
import type { Exit } from "../../../../platform/workers/types.ts";
import { FAILURES } from "../../../../workers/protocol.ts";

export type Loss = { error: string; canRetry: boolean };

const LINK_DIR = /models\/\.given\/\w+\/\d+\//g; // the name of the file stays
const STACK_LINE = /^\s+at .*$|\$bunfs/;
const PREFIX = /^Worker \w+ failed: /;

export const withoutPaths = (text: string, dataDir: string): string =>
  text.replaceAll(`${dataDir}/`, "").replaceAll(LINK_DIR, "");

/** A failure that no restart repairs is explained by the worker's own message alone. Others show the worker's output. */
export function explainLoss(exit: Exit, dataDir: string): Loss {
  const failure = FAILURES[exit.kind as keyof typeof FAILURES];
  const canRetry = failure?.retry ?? true;
  const message = withoutPaths(exit.message, dataDir);
  if (!canRetry && failure?.blame === "user") return { error: message.replace(PREFIX, ""), canRetry };
  const said = message.replace(PREFIX, "");
  const tail = withoutPaths(exit.tail, dataDir)
    .split("\n")
    .filter((line) => line.trim() !== "" && !STACK_LINE.test(line) && !line.endsWith(said));
  return { error: [message, ...tail].join("\n"), canRetry };
}
