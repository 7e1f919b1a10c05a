/** Reads a file of any kind into a file of rows, in a child process without a network. */
import type { Supervisor } from "../../../../platform/workers/supervisor.ts";
import { FromImporter, type ToImporter } from "../../../../workers/protocol_importer.ts";

export type Imported = Extract<FromImporter, { type: "imported" }>;
export type ImportTask = Omit<ToImporter, "type">;
type Limits = { reads?: readonly string[]; writes: readonly string[]; signal: AbortSignal };

/** The file is at fault, or the process ended. The message is for people. */
export class Unreadable extends Error {
  constructor(
    message: string,
    readonly kind: "refused" | "too_large" | "broken",
  ) {
    super(message);
  }
}

/** Rejects with Unreadable, or with the reason of the signal. */
export async function importRows(supervisor: Supervisor, task: ImportTask, { signal, ...grants }: Limits) {
  const over = Promise.withResolvers<Imported>();
  const worker = supervisor.spawn<FromImporter, ToImporter>({
    kind: "importer",
    incoming: FromImporter,
    grants,
    onMessage(message) {
      if (message.type === "imported") over.resolve(message);
      if (message.type === "refused")
        over.reject(new Unreadable(message.message, message.too_large ? "too_large" : "refused"));
    },
    onExit: ({ message }) => over.reject(new Unreadable(`The file could not be read: ${message}`, "broken")),
  });
  const leave = () => over.reject(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  try {
    signal.throwIfAborted();
    worker.send({ type: "import", ...task });
    return await over.promise;
  } finally {
    signal.removeEventListener("abort", leave);
    await worker.stop("the file is read");
  }
}
