/** The family tree as a table. */
import type { ComponentChildren } from "preact";
import { bytes } from "../../data/format.ts";
import { useRunNames } from "../../data/run_names.ts";
import { Ref } from "../../kit/content.tsx";
import { Pill, State } from "../../kit/pill.tsx";
import { Table } from "../../kit/table.tsx";
import { type Line, linesOf, type Node } from "./tree.ts";
import { isOpen, type Model } from "./types.ts";
import { doingText, parameters } from "./words.ts";

type FamilyProps = {
  label: string;
  nodes: readonly Node[];
  /** The context of the memory column; undefined: without that column. */
  context?: string | undefined;
  /** The model of the page. */
  current?: string | undefined;
};

export function Family({ label, nodes, context, current }: FamilyProps) {
  const runName = useRunNames();
  const ofModel = (show: (model: Model) => ComponentChildren) => (line: Line) =>
    line.node.model ? show(line.node.model) : null;
  return (
    <Table
      label={label}
      rows={linesOf(nodes)}
      keyOf={({ node }) => node.key}
      columns={[
        { title: "Name", cell: (line) => <Name line={line} runName={runName} isCurrent={line.node.key === current} /> },
        { title: "State", cell: ofModel((model) => <ModelState model={model} />) },
        { title: "Parameters", cell: ofModel((model) => parameters(model.parameters)), numeric: true, wide: true },
        { title: "Weights", cell: ofModel(({ quantization }) => quantization ?? "–"), wide: true },
        { title: "Size", cell: ofModel(({ size_bytes: size }) => bytes(size)), numeric: true },
        ...(context === undefined
          ? []
          : [
              {
                title: `Memory at ${context}`,
                cell: ofModel(({ memory_bytes: memory }) => bytes(memory)),
                numeric: true,
                wide: true,
              },
              { title: "Served by", cell: ofModel((model) => <ServedBy model={model} />), wide: true },
            ]),
      ]}
    />
  );
}

type NameProps = { line: Line; runName: (id: string) => string; isCurrent: boolean };

function Name({ line: { node, depth }, runName, isCurrent }: NameProps) {
  return (
    <span class={`models-name d${Math.min(depth, 6)}`}>
      {node.kind === "run" && (
        <>
          <small>Run</small> <Ref page="/runs/:id" id={node.name} children={runName(node.name)} />
        </>
      )}
      {node.kind === "checkpoint" && <small>{node.step === undefined ? "Checkpoint" : `Step ${node.step}`}</small>}
      {node.kind === "absent" && <small>{`${node.name}, which is not here`}</small>}
      {node.model && (
        <>
          {isCurrent ? (
            <b>{node.model.name}</b>
          ) : (
            <a class="rowlink" href={`/models/${node.model.id}`}>
              {node.model.name}
            </a>
          )}
          {node.model.type === "adapter" && <small class="models-kind">adapter</small>}
          {node.model.source === "builtin" && <small class="models-kind">built in</small>}
        </>
      )}
    </span>
  );
}

export const ModelState = ({ model }: { model: Model }) =>
  isOpen(model) ? <Pill tone="busy">{doingText(model)}</Pill> : <State status={model.status} reason={model.error} />;

const ServedBy = ({ model: { served_by: deployments = [] } }: { model: Model }) => (
  <span class="models-served">
    {deployments.map(({ id, name }) => (
      <Ref key={id} page="/deployments/:id" id={id} children={name} />
    ))}
  </span>
);
