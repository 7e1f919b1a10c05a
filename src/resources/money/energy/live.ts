/** Power of running jobs, for the energy of their steps (`ctx.state.energy`). Readings come every few seconds. */

declare module "../../../context.ts" {
  interface State {
    readonly energy: EnergyState;
  }
}

type Power = { joules: number; ms: number; watts: number };

export class EnergyState {
  readonly #jobs = new Map<string, Power>();

  /** Adds a reading: the job used `joules` in `ms`. */
  add(jobId: string, joules: number, ms: number) {
    const { joules: before = 0, ms: beforeMs = 0, watts = 0 } = this.#jobs.get(jobId) ?? {};
    this.#jobs.set(jobId, { joules: before + joules, ms: beforeMs + ms, watts });
  }

  /** Mean power since the last call, or of the last reading if there is no newer one. Undefined without any reading. */
  takeWatts(jobId: string): number | undefined {
    const power = this.#jobs.get(jobId);
    if (!power) return undefined;
    const watts = power.ms === 0 ? power.watts : power.joules / (power.ms / 1000);
    this.#jobs.set(jobId, { joules: 0, ms: 0, watts });
    return watts;
  }

  /** Forgets all other jobs. */
  keepOnly(jobIds: ReadonlySet<string>) {
    for (const id of this.#jobs.keys()) if (!jobIds.has(id)) this.#jobs.delete(id);
  }
}
