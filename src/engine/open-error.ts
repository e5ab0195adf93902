/** Why a data directory cannot be served; its message is a whole sentence for the person at the terminal. */
export class OpenError extends Error {}
