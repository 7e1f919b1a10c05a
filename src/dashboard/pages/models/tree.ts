/** The family tree of models: base, run, checkpoint, and what was made of the checkpoint. Pure. */
import type { Model } from "../../../resources/serving/models/schema.ts";

export type Node = {
  key: string;
  kind: "model" | "run" | "checkpoint" | "absent";
  /** The id of a run; the name of a base that is not here. */
  name: string;
  model?: Model;
  step?: number;
  children: Node[];
};
export type Line = { node: Node; depth: number };

const newNode = (kind: Node["kind"], key: string, name: string): Node => ({ key, kind, name, children: [] });

/** Models keep their order. A model whose base is not in the list hangs below the name of the base. */
export function treeOf(models: readonly Model[]): Node[] {
  const nodes = new Map<string, Node>(
    models.map((model) => [model.id, { ...newNode("model", model.id, model.name), model }]),
  );
  const byName = new Map(models.map((model) => [model.name, model.id]));
  const others = new Map<string, Node>();
  const roots: Node[] = [];
  const baseOf = ({ base_model_id: id, base_model: name }: Model) => nodes.get(id ?? byName.get(name ?? "") ?? "");
  /** A file may name a descendant, or itself, as its base. */
  const isBelow = (model: Model, top: Model): boolean => {
    const seen = new Set<string>();
    for (let at: Model | undefined = model; at !== undefined && !seen.has(at.id); at = baseOf(at)?.model) {
      if (at.id === top.id) return true;
      seen.add(at.id);
    }
    return false;
  };
  /** The node with this key, added below `parent` when it is first wanted. */
  const shared = (key: string, parent: Node[], make: () => Node): Node => {
    const kept = others.get(key);
    if (kept) return kept;
    const made = make();
    others.set(key, made);
    parent.push(made);
    return made;
  };
  for (const model of models) {
    const node = nodes.get(model.id);
    if (!node) continue;
    const base = baseOf(model);
    let place = roots;
    if (base?.model && !isBelow(base.model, model)) place = base.children;
    else if (!base && model.base_model !== null) {
      const { base_model: name } = model;
      place = shared(`absent ${name}`, roots, () => newNode("absent", `absent ${name}`, name)).children;
    }
    const { job_id: job, checkpoint_id: checkpoint, checkpoint_step: step } = model;
    if (job !== null) place = shared(job, place, () => newNode("run", job, job)).children;
    if (job !== null && checkpoint !== null)
      place = shared(checkpoint, place, () => ({
        ...newNode("checkpoint", checkpoint, ""),
        ...(step === null ? {} : { step }),
      })).children;
    place.push(node);
  }
  return roots;
}

/** The lines of a tree, from the top. */
export const linesOf = (nodes: readonly Node[], depth = 0): Line[] =>
  nodes.flatMap((node) => [{ node, depth }, ...linesOf(node.children, depth + 1)]);

/** Only what has a model that fits, with everything above and below it. */
export function kept(nodes: readonly Node[], fits: (model: Model) => boolean): Node[] {
  return nodes.flatMap((node) => {
    if (node.model && fits(node.model)) return [node];
    const children = kept(node.children, fits);
    return children.length === 0 ? [] : [{ ...node, children }];
  });
}
