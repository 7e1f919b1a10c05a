/** Files that were dropped, and their detections. They live as long as the tab, also while another page is shown. */
import { signal } from "@preact/signals";
import { errorText } from "../../../lib/error_text.ts";
import type { Detection } from "../../../resources/detection/schema.ts";
import { api } from "../../data/api.ts";

export type Item = {
  key: number;
  file: File;
  /** An address of the file within the browser, for its picture. */
  url: string;
  state: "waiting" | "running" | "done" | "failed";
  detection?: Detection;
  error?: string;
};

export const MODELS = [
  ["", "Default models"],
  ["detector_v0", "detector_v0"],
  ["detector_v1", "detector_v1"],
  ["detector_v0,detector_v1", "Both image models"],
] as const;

const MOST_FILES = 1_000;
const AT_ONCE = 2;

export const items = signal<readonly Item[]>([]);
export const models = signal<string>("");

let next = 1;
let running = 0;

export function addFiles(files: Iterable<File>) {
  const room = MOST_FILES - items.value.length;
  const added = [...files]
    .slice(0, room)
    .map((file): Item => ({ key: next++, file, url: URL.createObjectURL(file), state: "waiting" }));
  items.value = [...added.reverse(), ...items.value];
  pump();
}

export function clearFiles() {
  for (const { url } of items.value) URL.revokeObjectURL(url);
  items.value = [];
}

export function change(key: number, patch: Partial<Item>) {
  items.value = items.value.map((item) => (item.key === key ? { ...item, ...patch } : item));
}

/** Two at a time: the server scores them together, and others can use it too. */
function pump() {
  while (running < AT_ONCE) {
    const item = items.value.findLast(({ state }) => state === "waiting");
    if (!item) return;
    running++;
    change(item.key, { state: "running" });
    void detect(item.file)
      .then(
        (detection) => change(item.key, { state: "done", detection }),
        (error: unknown) => change(item.key, { state: "failed", error: errorText(error) }),
      )
      .finally(() => {
        running--;
        pump();
      });
  }
}

/** The server recognises the format by the bytes; the type only chooses the field. */
export function detect(file: Blob): Promise<Detection> {
  const isSound = file.type.startsWith("audio/");
  const form = new FormData();
  form.set(isSound ? "audio" : "image", file);
  if (models.value !== "" && !isSound) form.set("models", models.value);
  return api<Detection>("/api/detect", { method: "POST", body: form });
}
