/** Says how many requests left no content, and keeps the content of those to come. */
import { useState } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { api } from "../../data/api.ts";
import { count, plural } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { CheckField } from "../../kit/field.tsx";
import { queryOf } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import type { TraceFacets } from "./types.ts";

type Props = { facets: TraceFacets | undefined; deployments: readonly Deployment[] };

export const notKeptText = ({ not_kept, total }: TraceFacets): string =>
  total === 1
    ? "The request was not kept: its trace has times and tokens alone."
    : `${count(not_kept)} of ${plural(total, "request")} ${not_kept === 1 ? "was" : "were"} not kept: their traces have times and tokens alone.`;

export function NotKept({ facets, deployments }: Props) {
  if (!facets || facets.not_kept === 0) return null;
  return (
    <div class="traces-notkept" role="status">
      <span>{notKeptText(facets)}</span>
      <KeepButton deployments={deployments} />
    </div>
  );
}

/** Deployments whose content is not kept, of the one that the list is about or of all. */
function lacking(deployments: readonly Deployment[]) {
  const only = queryOf("deployment_id");
  return deployments.filter(({ id, capture }) => capture !== "full" && (only === undefined || only === id));
}

export function KeepButton({ deployments }: { deployments: readonly Deployment[] }) {
  const [open, setOpen] = useState(false);
  const some = lacking(deployments);
  if (!may("inference", false)) return null;
  if (some.length === 0) return deployments.length > 0 ? <small>The content of new requests is kept.</small> : null;
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        {some.length === 1 ? `Keep the content of ${some[0]?.name}` : "Keep the content"}
      </Button>
      {open && <Keep deployments={some} onClose={() => setOpen(false)} />}
    </>
  );
}

function Keep({ deployments, onClose }: { deployments: readonly Deployment[]; onClose: () => void }) {
  const [chosen, setChosen] = useState<readonly string[]>(deployments.map(({ id }) => id));
  const keep = async () => {
    const done = await attempt(async () => {
      for (const id of chosen) await api(`/v1/deployments/${id}`, { method: "PATCH", body: { capture: "full" } });
      return true;
    }, "Prompts and answers are kept from the next request on");
    await reload("/v1/deployments");
    if (done) onClose();
  };
  return (
    <Dialog title="Keep prompts and answers" onClose={onClose}>
      <div class="stack">
        <p class="muted">
          From the next request on, traces have the messages, the answer and all parameters. Earlier requests stay as
          they are. Credentials and secrets are removed before a trace is stored.
        </p>
        {deployments.map(({ id, name, capture_retention_days: days }) => (
          <CheckField
            key={id}
            label={`${name}, removed after ${plural(days, "day")}`}
            checked={chosen.includes(id)}
            onChange={(isOn) => setChosen(isOn ? [...chosen, id] : chosen.filter((each) => each !== id))}
          />
        ))}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={keep} disabled={chosen.length === 0}>
          Keep
        </Button>
      </footer>
    </Dialog>
  );
}
