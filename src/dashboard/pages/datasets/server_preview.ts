/** The preview of a file that only the server can read: Parquet, packed files and large arrays. Nothing is stored. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { MIB } from "../../../lib/units.ts";
import type { FilePreview } from "../../../resources/data/datasets/stream/upload.ts";
import { ApiError, api } from "../../data/api.ts";
import type { Preview } from "./file_preview.ts";

/** A larger file is read once, by the upload itself. */
const LARGEST = 64 * MIB;
const TYPING_MS = 500;

export type ServerPreview =
  | { state: "reading" }
  | { state: "unread" }
  | { state: "read"; preview: Preview; summary: string }
  | { state: "refused"; error: ApiError };

/** `file` undefined: the page reads the file itself. */
export function useServerPreview(file: File | undefined, map: string, shape: string): ServerPreview | undefined {
  const [result, setResult] = useState<ServerPreview>();
  useEffect(() => {
    if (!file) return;
    if (file.size > LARGEST) return setResult({ state: "unread" });
    const stop = new AbortController();
    setResult({ state: "reading" });
    const timer = setTimeout(() => {
      read(file, { map, shape }, stop.signal).then(setResult, (cause: unknown) => {
        if (stop.signal.aborted) return;
        setResult({
          state: "refused",
          error: cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)),
        });
      });
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [file, map, shape]);
  return file ? (result ?? { state: "reading" }) : undefined;
}

async function read(file: File, fields: Readonly<Record<string, string>>, signal: AbortSignal): Promise<ServerPreview> {
  const form = new FormData();
  const all = { ...fields, name: file.name.slice(0, 100) || "file", dry_run: "true" };
  for (const [name, value] of Object.entries(all)) if (value !== "") form.set(name, value);
  form.set("file", file); // the last: the server reads the others before it
  const { rows, format, detected } = await api<FilePreview>("/v1/datasets", { method: "POST", body: form, signal });
  return {
    state: "read",
    summary: detected.summary,
    preview: { rows, format, shape: detected.shape, faults: [] },
  };
}
