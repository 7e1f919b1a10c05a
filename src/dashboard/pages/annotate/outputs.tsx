import type { Preferred } from "../../../resources/quality/annotation_queues/label_schema.ts";

type Props = {
  outputs: readonly string[];
  mode: "single" | "pairwise";
  preferred: Preferred | null;
  prefer: (value: Preferred) => void;
};

/** Two answers beside each other, each a button; or one answer. */
export function Outputs({ outputs, mode, preferred, prefer }: Props) {
  if (mode === "single")
    return (
      <div class="annotate-outputs">
        {outputs.map((text, i) => (
          <div key={i} class="annotate-output">
            <small>Answer</small>
            <pre class="text">{text}</pre>
          </div>
        ))}
      </div>
    );
  return (
    <div class="annotate-outputs">
      {(["first", "second"] as const).map((each, i) => (
        <button
          key={each}
          type="button"
          class="annotate-output"
          aria-pressed={preferred === each}
          onClick={() => prefer(each)}
        >
          <small>
            {i === 0 ? "First" : "Second"} <kbd>{i + 1}</kbd>
          </small>
          <pre class="text">{outputs[i]}</pre>
        </button>
      ))}
    </div>
  );
}
