/** Reads one file of rows after another, as a connector would; the fuzzer starts it anew when it dies of one. */
import { BEGINNING } from "../../src/workers/connector/formats/file.ts";
import { columnsOf, rowsOf } from "../../src/workers/connector/formats/rows.ts";
import { SourceError } from "../../src/workers/connector/types.ts";
import { memoryFile } from "../../test/connectors/formats_kit.ts";

const ROW_BYTES = 4_000_000;

async function read({ ending, bytes }: { ending: string; bytes: Uint8Array }) {
  const file = memoryFile(`rows.${ending}`, bytes);
  try {
    await columnsOf(file, ROW_BYTES);
    for await (const { lines } of rowsOf(file, { rowBytes: ROW_BYTES, from: BEGINNING }))
      for (const line of lines) JSON.parse(line);
    return { ended: "accepted", detail: "" };
  } catch (error) {
    if (error instanceof SourceError) return { ended: "refused", detail: error.message };
    return { ended: "wrong", detail: error instanceof Error ? `${error.stack}` : String(error) };
  }
}

process.on("message", (message: { ending: string; bytes: Uint8Array }) => {
  void read(message).then((outcome) => process.send?.(outcome));
});
