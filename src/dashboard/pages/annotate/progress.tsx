import type { AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { count } from "../../data/format.ts";
import { Progress as Bar } from "../../kit/progress.tsx";

/** "2 of 40 done", with a bar. */
export function Progress({ of }: { of: NonNullable<AnnotationQueue["items"]> }) {
  const done = of.completed + of.appending + of.skipped;
  const total = done + of.pending;
  return (
    <Bar label="Items that are done" done={done} total={total}>
      {count(done)} of {count(total)} done
      {of.skipped > 0 && `, ${count(of.skipped)} skipped`}
      {of.appending > 0 && `, ${count(of.appending)} on the way to the dataset`}
    </Bar>
  );
}
