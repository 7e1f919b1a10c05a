/** Graphs by shape: the most recently used ones are kept while there is memory. */
import { OutOfMemory } from "../../../native/ggml/ggml.ts";
import { buildGraph, type Graph, type GraphShape } from "../engine/graph.ts";
import type { Model } from "../engine/transformer.ts";

export type Graphs = {
  get: (shape: GraphShape) => Graph;
  /** Size of the largest graph so far. */
  readonly largestBytes: number;
  free: () => void;
};

export function openGraphs(model: Model, mostBytes: number): Graphs {
  const kept = new Map<string, Graph>(); // most recently used last
  let largestBytes = 0;
  const bytes = () => [...kept.values()].reduce((sum, graph) => sum + graph.bytes, 0);
  const drop = (key: string) => {
    kept.get(key)?.free();
    kept.delete(key);
  };
  const dropAll = () => {
    for (const key of [...kept.keys()]) drop(key);
  };
  function build(shape: GraphShape): Graph {
    try {
      return buildGraph(model, shape);
    } catch (error) {
      if (!(error instanceof OutOfMemory) || kept.size === 0) throw error;
      dropAll();
      return buildGraph(model, shape);
    }
  }
  return {
    get(shape) {
      const { dropout, ...rest } = shape;
      const key = JSON.stringify([rest, dropout !== undefined]);
      const graph = kept.get(key) ?? build(shape);
      kept.delete(key);
      for (const oldest of [...kept.keys()]) if (bytes() + graph.bytes > mostBytes) drop(oldest);
      kept.set(key, graph);
      largestBytes = Math.max(largestBytes, graph.bytes);
      return graph;
    },
    get largestBytes() {
      return largestBytes;
    },
    free: dropAll,
  };
}
