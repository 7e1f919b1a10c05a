import type { ComponentChildren } from "preact";

type ProgressProps = {
  /** For screen readers: what is done. */
  label: string;
  done: number;
  total: number;
  /** At the right of the bar: "12 of 40 done". */
  children: ComponentChildren;
};

export const Progress = ({ label, done, total, children }: ProgressProps) => (
  <div class="progress">
    <progress value={done} max={total || 1} aria-label={label} />
    <span class="n muted">{children}</span>
  </div>
);
