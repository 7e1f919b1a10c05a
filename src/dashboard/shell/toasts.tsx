/** Short notes at the edge of the page: "Saved", or the error of an action. */
import { signal } from "@preact/signals";
import { errorText } from "../../lib/error_text.ts";

type Toast = { id: number; text: string; tone: "good" | "bad" };
const toasts = signal<readonly Toast[]>([]);
const SHOWN_MS = 6_000;
let last = 0;

export function toast(text: string, tone: Toast["tone"] = "good") {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { id, text, tone }];
  setTimeout(() => close(id), SHOWN_MS);
}

const close = (id: number) => {
  toasts.value = toasts.value.filter((each) => each.id !== id);
};

/** Runs an action of a button. Its error becomes a note; the result is undefined then. */
export async function attempt<T>(action: () => Promise<T>, done?: string): Promise<T | undefined> {
  try {
    const result = await action();
    if (done !== undefined) toast(done);
    return result;
  } catch (error) {
    toast(errorText(error), "bad");
    return undefined;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, tone }) => (
        <div key={id} class={`toast ${tone}`}>
          <span>{text}</span>
          <button type="button" class="plain" aria-label="Close" onClick={() => close(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
