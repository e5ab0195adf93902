import { CorruptFile } from "../engine/files.ts";
import { BrokenRecord } from "./subspace.ts";

/** What is damaged cannot be taken apart, and stays; what comes after it goes all the same, and then it is told. */
export class Damage {
  #first: unknown;

  /** Whether the step went well. */
  async passed(step: Promise<unknown>): Promise<boolean> {
    try {
      await step;
      return true;
    } catch (error) {
      if (!(error instanceof CorruptFile || error instanceof BrokenRecord)) throw error;
      this.#first ??= error;
      return false;
    }
  }

  tell(): void {
    if (this.#first !== undefined) throw this.#first;
  }
}
