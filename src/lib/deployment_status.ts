/** The states of a deployment. Which may follow which: `src/resources/serving/deployments/machine.ts`. */
export const ACTIVE = ["queued", "provisioning", "serving", "unhealthy"] as const;
export const ENDED = ["stopped", "failed"] as const;
export const STATUSES = [...ACTIVE, ...ENDED] as const;

export const isDeploymentOver = (status: string): boolean => (ENDED as readonly string[]).includes(status);
