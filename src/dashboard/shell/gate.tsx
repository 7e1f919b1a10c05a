/** The frame of the pages before a session: sign-in, setup, invitation. */
import type { ComponentChildren } from "preact";

export const Gate = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <main class="gate">
    <span class="brand" aria-hidden="true">
      ver<i>k</i>
    </span>
    <p class="claim">Train, serve and watch your own models, on your own machine.</p>
    <section class="card" aria-live="polite">
      <h1>{title}</h1>
      {children}
    </section>
  </main>
);
