import { useSignal } from "@preact/signals";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { attempt, toast } from "../../shell/toasts.tsx";

const HOUR_MS = 3_600_000;
const SINCE = [
  ["1", "The last hour"],
  ["24", "The last day"],
  ["72", "The last three days"],
  ["other", "Another time"],
] as const;

/** Resends every event that was not delivered since a time. */
export function ResendFailed({ path, onClose }: { path: string; onClose: () => void }) {
  const choice = useSignal<(typeof SINCE)[number][0]>("24");
  const time = useSignal("");
  const at = choice.value === "other" ? Date.parse(time.value) : Date.now() - Number(choice.value) * HOUR_MS;
  const resend = async () => {
    const body = { since: new Date(at).toISOString() };
    const answer = await attempt(() => api<{ count: number }>(`${path}/recover`, { method: "POST", body }));
    if (!answer) return;
    toast(answer.count === 0 ? "No event failed in this time" : `${plural(answer.count, "event")} resent`);
    onClose();
    await reload(path);
  };
  return (
    <Dialog title="Resend what was not delivered" onClose={onClose}>
      <div class="stack">
        <p class="muted">
          Each event that failed, expired or came while the endpoint was disabled is sent once more. Events that were
          delivered are not sent again.
        </p>
        <SelectField
          label="Events since"
          value={choice.value}
          options={SINCE}
          onChange={(next) => (choice.value = next)}
        />
        {choice.value === "other" && (
          <TextField
            label="Time"
            type="datetime-local"
            value={time.value}
            onInput={(text) => {
              time.value = text;
            }}
          />
        )}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={resend} disabled={Number.isNaN(at)}>
          Resend
        </Button>
      </footer>
    </Dialog>
  );
}
