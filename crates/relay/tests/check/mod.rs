//! A checker of the production tables: every interleaving of small models, and the broken rules that
//! it must notice.

pub mod explore;
pub mod hostile;
pub mod objects;
pub mod promises;
pub mod suite;
pub mod world;
