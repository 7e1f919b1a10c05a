import type { Agreement as Answer } from "../../../resources/quality/annotation_queues/agreement.ts";
import { number, plural } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Card } from "../../kit/card.tsx";
import { Loaded } from "../../kit/page.tsx";

/** Usual limits of Krippendorff's alpha. */
const GOOD = 0.8;
const FAIR = 0.667;

export function Agreement({ path }: { path: string }) {
  const agreement = useResource<Answer>(`${path}/agreement`, { events: ["annotation_item."] });
  return (
    <Card title="Agreement">
      <Loaded of={agreement}>
        {({ items, annotators, labels }) => (
          <div class="stack">
            {items === 0 ? (
              <p class="muted">Two people must annotate the same item before they can agree.</p>
            ) : (
              <dl class="facts">
                {labels.map((label) => (
                  <div key={label.name}>
                    <dt>{label.name === "preferred" ? "Choice" : label.name}</dt>
                    <dd>{wordsOf(label.alpha ?? label.span_f1)}</dd>
                  </div>
                ))}
              </dl>
            )}
            {annotators.length > 0 && (
              <dl class="facts">
                {annotators.map(({ annotator, annotations, skips }) => (
                  <div key={annotator}>
                    <dt class="annotate-who">{annotator}</dt>
                    <dd>
                      {plural(annotations, "item")}
                      {skips > 0 && `, ${plural(skips, "skip")}`}
                    </dd>
                  </div>
                ))}
              </dl>
            )}
          </div>
        )}
      </Loaded>
    </Card>
  );
}

function wordsOf(value: number | null) {
  if (value === null) return <span class="muted">All values are equal</span>;
  const [tone, word] = value >= GOOD ? ["good", "good"] : value >= FAIR ? ["warn", "fair"] : ["bad", "low"];
  return (
    <span class={tone}>
      {number(value)}, {word}
    </span>
  );
}
