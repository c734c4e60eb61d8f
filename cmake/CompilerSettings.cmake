set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(HEADROOM_CCACHE ccache)
if(HEADROOM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEADROOM_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${HEADROOM_CCACHE})
endif()

# The flags every target of the project compiles with.
add_library(headroom_settings INTERFACE)
target_include_directories(headroom_settings INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(headroom_settings INTERFACE
  # -Wno-restrict: GCC 12 reports string concatenation falsely (GCC bug 105651).
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Wno-restrict>")
if(HEADROOM_WERROR)
  target_compile_options(headroom_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(HEADROOM_SANITIZE)
  set(_sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_compile_options(headroom_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${_sanitize}>)
  target_link_options(headroom_settings INTERFACE ${_sanitize})
endif()
