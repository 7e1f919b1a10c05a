/** Finds what writes files in a source: calls of the file system, of Bun, of SQLite, and our own writers without a meter. */

/** Functions of node:fs that make or fill a file. Opening is judged by its flags. */
const RAW = [
  ...["appendFile", "copyFile", "cp", "createWriteStream", "ftruncate", "link", "rename", "symlink", "truncate"],
  ...["write", "writeFile", "writev"],
].flatMap((name) => [name, `${name}Sync`]);
const OPENING = ["open", "openSync"];
/** Writers of this project. Each call names a meter. */
const METERED = ["writeTemp", "writeStreamAtomic", "storage.put", "new RowsWriter", "copyRows", "linkFile"];
const SMALL = ["writeFileAtomic", "writeFileAtomicSync"];

/** The names that a source uses to write files, sorted. */
export function writesOf(text: string): string[] {
  const source = text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n"`]*$/gm, "");
  const imported = importedFrom(source, /^(node:)?fs(\/promises)?$/);
  const found = new Set<string>();
  for (const name of imported) {
    if (RAW.includes(name) || name.startsWith("*")) found.add(name);
    if (OPENING.includes(name) && callsOf(source, name).some((args) => !isReading(args))) found.add(name);
  }
  if (/\bBun\.write\(/.test(source)) found.add("Bun.write");
  if (/\.writer\(/.test(source)) found.add("writer");
  if (/VACUUM INTO/.test(source)) found.add("VACUUM INTO");
  if (/\bO_CREAT\b|\bO_WRONLY\b/.test(source)) found.add("O_CREAT");
  if (callsOf(source, "new Database").some((args) => !/readonly: true|:memory:/.test(args))) found.add("Database");
  if (callsOf(source, "openRows").some((args) => /"append"|"build"|\bmode\b/.test(args))) found.add("openRows");
  for (const name of SMALL) if (callsOf(source, name).length > 0) found.add(name);
  for (const name of METERED.filter((each) => !source.includes(`function ${each}(`)))
    if (callsOf(source, name).some((args) => !/meter/i.test(args))) found.add(`${name} without a meter`);
  if (/\bmeter(: |\s*=\s*|\s*\?\?=?\s*)[\w.]*UNCOUNTED|: UNCOUNTED\b/.test(source)) found.add("UNCOUNTED");
  return [...found].sort();
}

function importedFrom(source: string, from: RegExp): string[] {
  return [...source.matchAll(/import\s+([^;]*?)\s+from\s+"([^"]+)"/g)]
    .filter(([, names = "", path = ""]) => from.test(path) && !names.startsWith("type "))
    .flatMap(([, names = ""]) => names.replace(/[{}]/g, "").split(","))
    .map((name) => name.trim())
    .filter((name) => name !== "" && !name.startsWith("type "))
    .map((name) => name.split(" as ")[0] as string);
}

/** The arguments of every call, as text. A declaration of the same name is no call. */
function callsOf(source: string, name: string): string[] {
  const escaped = name.replace(/[.]/g, "\\.").replace(" ", "\\s+");
  const before = name.includes(".") || name.startsWith("new") ? "\\b" : "(?<![\\w#$]|(?<!files)\\.)";
  return [...source.matchAll(new RegExp(`${before}${escaped}\\(`, "g"))]
    .filter(({ index }) => !/(function\*?|async)\s+$/.test(source.slice(Math.max(0, index - 12), index)))
    .map(({ 0: call, index }) => argumentsAt(source, index + call.length))
    .filter((args) => !/^\s*\w+\??: /.test(args)); // the parameters of a method
}

function argumentsAt(source: string, start: number): string {
  let depth = 1;
  let at = start;
  for (; at < source.length && depth > 0; at++) {
    if (source[at] === "(") depth++;
    if (source[at] === ")") depth--;
  }
  return source.slice(start, at - 1);
}

const isReading = (args: string) =>
  /,\s*("r"|(constants|O)\.O_RDONLY)|O_PATH|DIRECTORY/.test(args) && !/O_CREAT|O_RDWR/.test(args);
