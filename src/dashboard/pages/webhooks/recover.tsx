import { useSignal } from "@preact/signals";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { attempt, toast } from "../../shell/toasts.tsx";

const HOUR_MS = 3_600_000;
const SINCE = [
  ["1", "The last hour"],
  ["24", "The last day"],
  ["72", "The last three days"],
  ["other", "Another time"],
] as const;

/** Sends again every event that was not delivered since a time. */
export function Recover({ path }: { path: string }) {
  const choice = useSignal<(typeof SINCE)[number][0]>("24");
  const time = useSignal("");
  if (!may("account", false)) return null;
  const recover = async () => {
    const at = choice.value === "other" ? Date.parse(time.value) : Date.now() - Number(choice.value) * HOUR_MS;
    if (Number.isNaN(at)) return toast("Choose a time first.", "bad");
    const body = { since: new Date(at).toISOString() };
    const answer = await attempt(() => api<{ count: number }>(`${path}/recover`, { method: "POST", body }));
    if (answer) toast(answer.count === 0 ? "Nothing to send again" : `${plural(answer.count, "event")} sent again`);
    await reload(path);
  };
  return (
    <Card title="Recover" note="send again what was not delivered">
      <div class="row webhooks-recover">
        <SelectField
          label="Since"
          value={choice.value}
          options={SINCE}
          onChange={(next) => {
            choice.value = next;
          }}
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
        <Button onClick={recover}>Recover</Button>
      </div>
    </Card>
  );
}
