//! Rows of the registry for the modules that [`super::stores`] builds.

use crate::StateModule;

macro_rules! row {
    ($constant:ident, $name:literal) => {
        row!($constant, $name, &[]);
    };
    ($constant:ident, $name:literal, $undo:expr) => {
        pub(crate) const $constant: StateModule = StateModule {
            name: $name,
            build: |fun, args| super::stores::build($name, fun, args),
            functions: &[],
            undo: $undo,
            description: include_str!(concat!("../", $name, "/description.txt")),
        };
    };
}

// The things of all these modules: a revert finds them by kind.
row!(APACHE_CONF, "apache_conf", super::stores::UNDOABLES);
row!(APACHE_MODULE, "apache_module");
row!(APACHE_SITE, "apache_site");
row!(DOCKER_CONTAINER, "docker_container");
row!(DOCKER_IMAGE, "docker_image");
row!(DOCKER_NETWORK, "docker_network");
row!(DOCKER_VOLUME, "docker_volume");
row!(LVM, "lvm");
row!(MYSQL_DATABASE, "mysql_database");
row!(MYSQL_GRANTS, "mysql_grants");
row!(MYSQL_QUERY, "mysql_query");
row!(MYSQL_USER, "mysql_user");
row!(PDBEDIT, "pdbedit");
row!(POSTGRES_DATABASE, "postgres_database");
row!(POSTGRES_EXTENSION, "postgres_extension");
row!(POSTGRES_GROUP, "postgres_group");
row!(POSTGRES_LANGUAGE, "postgres_language");
row!(POSTGRES_PRIVILEGES, "postgres_privileges");
row!(POSTGRES_SCHEMA, "postgres_schema");
row!(POSTGRES_TABLESPACE, "postgres_tablespace");
row!(POSTGRES_USER, "postgres_user");
row!(STATECONF, "stateconf");
