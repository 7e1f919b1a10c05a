/** The workspaces of the server, for admin keys. */
import { useState } from "preact/hooks";
import type { Workspace } from "../../../resources/access/workspaces/schema.ts";
import { api } from "../../data/api.ts";
import { reload, useList } from "../../data/resource.ts";
import { session } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/field.tsx";
import { Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";

export function Workspaces() {
  const list = useList<Workspace>("/v1/workspaces?limit=50", { events: ["workspace."] });
  const [suspended, setSuspended] = useState<Workspace>();
  const ownId = session.value.is === "in" ? session.value.session.workspace.id : undefined;
  const change = (item: Workspace, verb: "suspend" | "resume") =>
    attempt(async () => {
      await api(`/v1/workspaces/${item.id}/${verb}`, { method: "POST" });
      await reload("/v1/workspaces");
    });
  const action = (item: Workspace) => {
    if (item.id === ownId) return <small>This session</small>;
    if (item.status === "suspended") return <Button onClick={() => change(item, "resume")}>Resume</Button>;
    return (
      <Button kind="danger" label={`Suspend ${item.name}`} onClick={() => setSuspended(item)}>
        Suspend
      </Button>
    );
  };
  return (
    <div class="grid two">
      <Card>
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) => (
            <Table
              label="Workspaces"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { title: "Name", cell: ({ name }) => <b>{name}</b> },
                { title: "State", cell: ({ status }) => <State status={status} /> },
                { title: "Customer", cell: ({ payment_customer_id: id }) => <code>{id}</code>, wide: true },
                { title: "Created", cell: ({ created_at }) => <Time at={created_at} />, wide: true },
                { title: "", cell: action, numeric: true },
              ]}
            />
          )}
        </Loaded>
        <More list={list} />
      </Card>
      <NewWorkspace />
      {suspended && (
        <Confirm
          title="Suspend the workspace"
          verb="Suspend"
          onConfirm={() => change(suspended, "suspend")}
          onClose={() => setSuspended(undefined)}
        >
          All keys of {suspended.name} are refused until you resume it. Nothing is deleted.
        </Confirm>
      )}
    </div>
  );
}

function NewWorkspace() {
  const [name, setName] = useState("");
  const create = () =>
    attempt(async () => {
      await api("/v1/workspaces", { method: "POST", body: { name } });
      setName("");
      await reload("/v1/workspaces");
    }, `Created ${name}`);
  return (
    <Card title="New workspace">
      <div class="stack">
        <TextField label="Name" value={name} onInput={setName} hint="Data, keys and credit are separate." />
        <div class="row">
          <Button onClick={create} disabled={name.trim() === ""}>
            Create
          </Button>
        </div>
      </div>
    </Card>
  );
}
