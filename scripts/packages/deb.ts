/** A package of Debian: an ar archive of the format's version, the control archive and the data archive. */
import { createHash } from "node:crypto";
import { tarEnd, tarEntry, tarHeader } from "../../src/lib/archive/tar_write.ts";
import { foldersOf, PAYLOAD_LEVEL, type PackedFile, packageFiles, packed, type Release } from "./contents.ts";
import { control, packageVersion } from "./debian_texts.ts";
import { DEBIAN_SCRIPTS } from "./scripts.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);

export const debName = ({ version, platform }: Release) => `verk_${packageVersion(version)}_${platform.debian}.deb`;

export async function writeDeb(release: Release): Promise<Uint8Array> {
  const files = await packageFiles(release, "deb");
  const installedBytes = files.reduce((sum, { content }) => sum + content.byteLength, 0);
  const inside = [
    plain("/control", control(release, installedBytes)),
    plain("/conffiles", files.flatMap(({ kind, path }) => (kind === "config" ? [`${path}\n`] : [])).join("")),
    plain("/md5sums", files.map(md5Line).join("")),
    ...Object.entries(DEBIAN_SCRIPTS).map(([name, text]) => plain(`/${name}`, text, 0o755)),
  ].sort((a, b) => (a.path < b.path ? -1 : 1));
  return ar(release.seconds, [
    ["debian-binary", bytesOf("2.0\n")],
    ["control.tar.gz", packed(tarball(inside, release.seconds))],
    ["data.tar.gz", packed(tarball(files, release.seconds), PAYLOAD_LEVEL)],
  ]);
}

type TarFile = Pick<PackedFile, "path" | "content" | "mode">;
const plain = (path: string, text: string, mode = 0o644): TarFile => ({ path, content: bytesOf(text), mode });

/** conffiles have sums of their own, which dpkg keeps. */
const md5Line = ({ path, content, kind }: PackedFile) =>
  kind === "config" ? "" : `${createHash("md5").update(content).digest("hex")}  ${path.slice(1)}\n`;

/** Folders first, names below `./`, owned by root. */
export function tarball(files: readonly TarFile[], seconds: number): Uint8Array {
  const folders = ["/", ...foldersOf(files).map((path) => `${path}/`)];
  return Buffer.concat([
    ...folders.map((path) => tarHeader(`.${path}`, 0, "5", 0o755, { seconds })),
    ...files.flatMap(({ path, content, mode }) => [...tarEntry(`.${path}`, content, mode, { seconds })]),
    tarEnd(),
  ]);
}

/** Each member has a header of 60 characters and an even length. */
function ar(seconds: number, members: readonly (readonly [name: string, content: Uint8Array])[]): Uint8Array {
  const parts: Uint8Array[] = [bytesOf("!<arch>\n")];
  for (const [name, content] of members) {
    const fields = [name.padEnd(16), String(seconds).padEnd(12), "0".padEnd(6), "0".padEnd(6), "100644".padEnd(8)];
    parts.push(bytesOf(`${fields.join("")}${String(content.byteLength).padEnd(10)}\`\n`), content);
    if (content.byteLength % 2 === 1) parts.push(bytesOf("\n"));
  }
  return Buffer.concat(parts);
}
