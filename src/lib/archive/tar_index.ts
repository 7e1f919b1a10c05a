/** The positions of the files in a tar archive, read header by header: the contents are not read. */
import { ArchiveError, nameOf, refuseKind } from "./entries.ts";
import { TAR_BLOCK } from "./tar_write.ts";

export type TarSpan = { name: string; offset: number; size: number };

/** `read` returns so many bytes from an offset. Throws ArchiveError for anything but plain files with short names. */
export async function tarIndex(
  read: (offset: number, bytes: number) => Promise<Uint8Array>,
  totalBytes: number,
): Promise<TarSpan[]> {
  const spans: TarSpan[] = [];
  for (let at = 0; at + TAR_BLOCK <= totalBytes; ) {
    const block = await read(at, TAR_BLOCK);
    if (block.length !== TAR_BLOCK) throw new ArchiveError("The archive ends in the middle of an entry");
    if (block.every((byte) => byte === 0)) return spans;
    const name = nameOf(textOf(block.subarray(0, 100)));
    const size = Number.parseInt(new TextDecoder().decode(textOf(block.subarray(124, 136))), 8);
    const type = String.fromCharCode(block[156] ?? 0);
    if (type !== "0" && type !== "\0") refuseKind(name, `of the kind ${JSON.stringify(type)}`);
    if (!Number.isSafeInteger(size) || at + TAR_BLOCK + size > totalBytes)
      throw new ArchiveError(`The archive ends in the middle of ${name}`);
    spans.push({ name, offset: at + TAR_BLOCK, size });
    at += TAR_BLOCK + Math.ceil(size / TAR_BLOCK) * TAR_BLOCK;
  }
  return spans;
}

/** A field up to its first NUL. */
function textOf(field: Uint8Array): Uint8Array {
  const end = field.indexOf(0);
  return end < 0 ? field : field.subarray(0, end);
}
