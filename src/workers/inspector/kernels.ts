/** Reads the header of a model and says if our kernels decode it. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { errorText } from "../../lib/error_text.ts";
import { readHeader } from "../../lib/gguf/read.ts";
import { readInto } from "../../platform/files.ts";
import { reasonAgainst } from "../decoder/model.ts";

/** Null: they do. Else continues the sentence "Verk's kernels do not decode". */
export async function reasonAgainstKernels(path: string): Promise<string | null> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { size } = await file.stat();
    const header = await readHeader((into, at) => readInto(file, into, at), size);
    try {
      return reasonAgainst(header);
    } catch (error) {
      return errorText(error); // an architecture that only the library knows
    }
  } finally {
    await file.close();
  }
}
