# Debian packages; the root README lists them. yaml-cpp is taken static so that the binary can be copied alone.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(Eigen3 3.4 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(tl-expected REQUIRED)

find_library(HEADROOM_YAML_CPP NAMES libyaml-cpp.a yaml-cpp REQUIRED)
find_path(HEADROOM_YAML_CPP_INCLUDE yaml-cpp/yaml.h REQUIRED)
add_library(headroom_yaml_cpp INTERFACE)
target_link_libraries(headroom_yaml_cpp INTERFACE ${HEADROOM_YAML_CPP})
target_include_directories(headroom_yaml_cpp SYSTEM INTERFACE ${HEADROOM_YAML_CPP_INCLUDE})

# So are fmt, of which Debian has only the shared library: its implementation is compiled here, once; and zlib.
add_library(headroom_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt/fmt.cc)
target_compile_definitions(headroom_fmt PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
find_library(HEADROOM_ZLIB_STATIC NAMES libz.a)
add_library(headroom_zlib INTERFACE)
target_link_libraries(headroom_zlib INTERFACE $<IF:$<BOOL:${HEADROOM_ZLIB_STATIC}>,${HEADROOM_ZLIB_STATIC},ZLIB::ZLIB>)

set(HEADROOM_HAVE_CUDA OFF)
if(HEADROOM_CUDA)
  include(Cuda)
endif()
