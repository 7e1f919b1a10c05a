/** The places where jobs and deployments can run, with what each offers, its price, and its state. */
import { useState } from "preact/hooks";
import type { GpuAvailability } from "../../../resources/machines/gpu/schema.ts";
import type { Region } from "../../../resources/machines/regions/schema.ts";
import { api } from "../../data/api.ts";
import { reload, useList, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Command } from "../../kit/copy.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Page as Frame, Loaded } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { addressOf, devicesOf, kindOf, priceOf } from "./words.ts";

const EVERY_MS = 10_000;

export function Page() {
  const list = useList<Region>("/v1/regions?limit=50", { events: ["region."], everyMs: EVERY_MS });
  const devices = useResource<GpuAvailability>("/v1/gpu/availability", { everyMs: EVERY_MS }).data;
  const [deleted, setDeleted] = useState<Region>();
  return (
    <Frame
      title="Regions"
      purpose="Where jobs and deployments can run: this machine, machines over SSH, and clusters with Slurm."
    >
      <div class="grid">
        <Card>
          <Loaded of={{ ...list, data: list.items }}>
            {(rows) => <Regions rows={rows} devices={devices} onDelete={setDeleted} />}
          </Loaded>
          <More list={list} />
        </Card>
        <Card title="Add a region">
          <p>The server copies its own executable there. Nothing is installed, and no port is opened.</p>
          <Command text="verk regions add lab --host ada@lab.example --identity ~/.ssh/id_ed25519" />
        </Card>
      </div>
      {deleted && <Delete region={deleted} onClose={() => setDeleted(undefined)} />}
    </Frame>
  );
}

type RegionsProps = {
  rows: readonly Region[];
  devices: GpuAvailability | undefined;
  onDelete: (region: Region) => void;
};

const Regions = ({ rows, devices, onDelete }: RegionsProps) => (
  <Table
    label="Regions"
    rows={rows}
    keyOf={({ id }) => id}
    columns={[
      { title: "Name", cell: (region) => <Name region={region} /> },
      { title: "Kind", cell: kindOf, wide: true },
      {
        title: "State",
        cell: ({ available, reason }) => <State status={available ? "ready" : "failed"} reason={reason} />,
      },
      { title: "Devices", cell: (region) => <Devices lines={devicesOf(region, devices)} /> },
      { title: "Price of one device", cell: priceOf, wide: true },
      { title: "Answered", cell: ({ seen_at: at }) => (at ? <Time at={at} /> : ""), wide: true },
      {
        title: "",
        cell: (region) =>
          region.created_at !== null &&
          may("account", false) && (
            <Button kind="danger" label={`Delete ${region.name}`} onClick={() => onDelete(region)}>
              Delete
            </Button>
          ),
        numeric: true,
      },
    ]}
  />
);

const Name = ({ region }: { region: Region }) => (
  <span class="regions-lines">
    <b>{region.name}</b>
    <small>{addressOf(region)}</small>
  </span>
);

const Devices = ({ lines }: { lines: readonly string[] }) => (
  <span class="regions-lines">
    {lines.map((line) => (
      <span key={line}>{line}</span>
    ))}
  </span>
);

function Delete({ region: { id, name }, onClose }: { region: Region; onClose: () => void }) {
  const remove = () =>
    attempt(async () => {
      await api(`/v1/regions/${id}`, { method: "DELETE" });
      await reload("/v1/regions");
    }, `Deleted ${name}`);
  return (
    <Confirm title="Delete the region" verb="Delete" onConfirm={remove} onClose={onClose}>
      <p>No job and no deployment can run on {name} any more. Copied models and the executable stay on its disk.</p>
    </Confirm>
  );
}
