/** Sends files of a model to the server, with progress. */
import { api } from "../../data/api.ts";
import { type Model, modelPath } from "./types.ts";

export type Chosen = { name: string; files: readonly { path: string; file: File }[]; fault?: string };

/** Files of a Hugging Face folder that a conversion reads, and GGUF files. Others stay at home. */
const USED =
  /^(?:[^/]+\.(?:gguf|safetensors)|(?:config|tokenizer|tokenizer_config|added_tokens|special_tokens_map|generation_config|model\.safetensors\.index|modules|1_Pooling\/config)\.json|tokenizer\.model|chat_template\.jinja)$/i;

/** Chooses what to send of the files that were dropped or chosen. `path`: below the chosen folder, if it was one. */
export function chosenOf(all: readonly { path: string; file: File }[]): Chosen {
  const folder = commonFolder(all.map(({ path }) => path));
  const inside = all.map(({ path, file }) => ({ path: path.slice(folder === "" ? 0 : folder.length + 1), file }));
  const files = inside.filter(({ path }) => USED.test(path));
  const names = inside.map(({ path }) => path);
  const first = files.find(({ path }) => /\.gguf$/i.test(path))?.path ?? "";
  const name = folder || first.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, "");
  if (names.includes("adapter_config.json") && !names.includes("config.json"))
    return {
      name,
      files,
      fault: "This is a PEFT adapter. Import its GGUF form, or merge it into its base model first.",
    };
  if (files.length === 0)
    return {
      name,
      files,
      fault: "Choose a GGUF file, or a folder with config.json, safetensors files and a tokenizer.",
    };
  return { name, files };
}

/** The folder that all files lie in; empty: there is none. */
function commonFolder(paths: readonly string[]): string {
  const [first = "", ...others] = paths.map((path) => (path.includes("/") ? (path.split("/")[0] ?? "") : ""));
  return others.every((each) => each === first) ? first : "";
}

type Presigned = { id: string; files: { path: string; url: string; exists: boolean }[] };
export type Sending = { sent: number; total: number; phase: "sending" | "checking" };

/** The model that the files became. Without success nothing stays. */
export async function importModel(
  { name, files }: Pick<Chosen, "name" | "files">,
  base: string,
  { signal, onProgress }: { signal: AbortSignal; onProgress: (sending: Sending) => void },
): Promise<Model> {
  const body = { name, ...(base === "" ? {} : { base_model: base }) };
  const model = await api<Model>("/v1/models", { method: "POST", body, signal });
  const total = files.reduce((sum, { file }) => sum + file.size, 0);
  try {
    const wanted = files.map(({ path, file }) => ({ path, size_bytes: file.size }));
    const made = await api<Presigned>(modelPath(model.id, "/presigned-upload"), {
      method: "POST",
      body: { files: wanted },
      signal,
    });
    let before = 0;
    for (const { path, file } of files) {
      const address = made.files.find((each) => each.path === path);
      if (!address) throw new Error(`The server gave no address for ${path}`);
      const start = before;
      await put(address.url, file, {
        signal,
        onSent: (sent) => onProgress({ sent: start + sent, total, phase: "sending" }),
      });
      before += file.size;
    }
    onProgress({ sent: total, total, phase: "checking" });
    return await api<Model>(modelPath(model.id, "/complete"), { method: "POST", body: { upload_id: made.id }, signal });
  } catch (error) {
    await api(modelPath(model.id), { method: "DELETE" }).catch(() => undefined); // it has no file
    throw error;
  }
}

type Watch = { signal: AbortSignal; onSent: (bytes: number) => void };

/** `fetch` does not tell how much was sent. The signed address lies on this server. */
const put = (address: string, file: File, { signal, onSent }: Watch): Promise<void> =>
  new Promise((done, fail) => {
    const { pathname, search } = new URL(address);
    const request = new XMLHttpRequest();
    request.open("PUT", pathname + search);
    request.upload.onprogress = ({ loaded }) => onSent(loaded);
    request.onload = () => (request.status < 300 ? done() : fail(new Error(messageOf(request))));
    request.onerror = () => fail(new Error("The connection to the server was lost: try again"));
    request.onabort = () => fail(new DOMException("Cancelled", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });

function messageOf({ status, responseText }: XMLHttpRequest): string {
  try {
    const body = JSON.parse(responseText) as { error?: { message?: string } };
    return body.error?.message ?? `The server answered ${status}`;
  } catch {
    return `The server answered ${status}`;
  }
}

/** The files of a drop, also of folders in it. */
export async function filesOf(transfer: DataTransfer): Promise<{ path: string; file: File }[]> {
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  return (await Promise.all(entries.map((entry) => filesIn(entry, "")))).flat();
}

async function filesIn(entry: FileSystemEntry, prefix: string): Promise<{ path: string; file: File }[]> {
  const path = `${prefix}${entry.name}`;
  if (isFile(entry)) return [{ path, file: await new Promise<File>((done, fail) => entry.file(done, fail)) }];
  if (!isFolder(entry)) return [];
  const reader = entry.createReader();
  const inside: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail)); // a hundred at a time
    if (some.length === 0) break;
    inside.push(...some);
  }
  return (await Promise.all(inside.map((each) => filesIn(each, `${path}/`)))).flat();
}

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;
const isFolder = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory;
