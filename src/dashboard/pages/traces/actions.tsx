/** Actions of a trace: ask again, compare, keep it as a row, remove it. */
import { useState } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { deleteResource, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { openInPlayground } from "../playground/handover.ts";
import { Compare, sendAgain } from "./compare.tsx";
import { chatOf, curlOf, requestOf } from "./request.ts";
import { ToDataset } from "./to_dataset.tsx";
import type { Trace } from "./types.ts";

export function Actions({ trace }: { trace: Trace }) {
  const [open, setOpen] = useState<"compare" | "dataset" | "delete">();
  const close = () => setOpen(undefined);
  const { deployment_id: id } = trace;
  const deployment = useResource<Deployment>(id === null ? null : `/v1/deployments/${id}`);
  const model = deployment.data?.name ?? trace.model ?? "";
  const request = requestOf(trace, model);
  const play = () =>
    openInPlayground({
      ...(model === "" ? {} : { models: [model] }),
      messages: [...chatOf(trace.input), ...(Array.isArray(trace.output) ? trace.output : [])],
      sampling: trace.parameters ?? {},
    });
  return (
    <>
      {request && may("inference", false) && (
        <>
          {trace.source !== "completion" && (
            <Button kind="primary" onClick={play}>
              Open in playground
            </Button>
          )}
          <Button onClick={() => setOpen("compare")}>Compare with another model</Button>
        </>
      )}
      {request && may("training", false) && <Button onClick={() => setOpen("dataset")}>Add to dataset</Button>}
      {request && <Copy text={curlOf(request, location.origin)} label="Copy as curl" shown="Copy as curl" />}
      {may("inference", false) && (
        <Button kind="danger" onClick={() => setOpen("delete")}>
          Delete
        </Button>
      )}
      {open === "compare" && (
        <Compare title="Compare with another model" send={(other) => sendAgain(trace, other)} onClose={close} />
      )}
      {open === "dataset" && <ToDataset trace={trace} onClose={close} />}
      {open === "delete" && <Delete id={trace.id} onClose={close} />}
    </>
  );
}

function Delete({ id, onClose }: { id: string; onClose: () => void }) {
  const remove = () =>
    attempt(async () => {
      await deleteResource(`/v1/traces/${id}`);
      navigate("/traces");
      await reload("/v1/traces");
    }, "Deleted the trace");
  return (
    <Confirm title="Delete the trace" verb="Delete" onConfirm={remove} onClose={onClose}>
      Its content, its scores and its place in a conversation are removed. Rows that were made from it stay.
    </Confirm>
  );
}
